// Sets one option of a job, by its path as in docs/jobs.md.

import { expected } from "../ports/check-options.ts";
import { usualOptimizer } from "./job-schema.ts";

/**
 * Sections whose `kind` has a default, which applies if only other options of the section are set.
 */
const usualSections: Readonly<Record<string, object>> = {
  "optimizer.dense": usualOptimizer.dense,
  "optimizer.sparse": usualOptimizer.sparse,
  loss: { kind: "binaryCrossEntropy" },
  "model.table.dynamic.admission": { kind: "all" },
  "model.table.dynamic.eviction": { kind: "lfu" },
  "model.tables.*.dynamic.admission": { kind: "all" },
  "model.tables.*.dynamic.eviction": { kind: "lfu" },
};

/**
 * Returns a copy of `job` with `value` at `option`: `tables[0].dim` or `tables.0.dim`;
 * `tables[].dim` sets that of every table. Missing sections on the path are created with their
 * default kind. `shownAs`: the name of the option in error messages.
 * @throws InvalidOptionError where the path leads through a value that has no options
 */
export function withOption(job: unknown, option: string, value: unknown, shownAs: string): unknown {
  const path = option.replaceAll(/\[(\d*)\]/g, (_, at) => `.${at || "*"}`).split(".");
  return changed(job, [], path, { value, shownAs });
}

/** Returns `before`, the value at path `at` of the job, with the new value at `path` inside it. */
function changed(
  before: unknown,
  at: readonly string[],
  path: readonly string[],
  to: { readonly value: unknown; readonly shownAs: string },
): unknown {
  const [first = "", ...rest] = path;
  const { value, shownAs } = to;
  if (path.length === 0) return value;
  const isEntry = first === "*" || /^\d+$/.test(first);
  const inner = (one: unknown) => changed(one, [...at, isEntry ? "*" : first], rest, to);
  if (Array.isArray(before)) {
    if (first === "*") return before.map(inner);
    const place = Number(first);
    if (Number.isInteger(place) && place >= 0 && place < before.length) {
      return before.with(place, inner(before[place]));
    }
  } else if (before === undefined || (typeof before === "object" && before !== null)) {
    const own = (before ?? usualSections[at.join(".")] ?? {}) as Record<string, unknown>;
    return { ...own, [first]: inner(Object.hasOwn(own, first) ? own[first] : undefined) };
  }
  throw expected(shownAs, `an option that the job can have; there is no \`${first}\``, value);
}

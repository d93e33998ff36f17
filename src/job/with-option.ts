// One option of a job with another value, by its path as docs/jobs.md writes it.

import { expected } from "../ports/check-options.ts";

/**
 * A copy of `job` with `value` at `option`: `tables[0].dim` or `tables.0.dim`; `tables[].dim` is
 * that of every table. Sections on the way are made. `told`: the name of the option in a refusal.
 * @throws InvalidOptionError where the path leads through a value that has no options
 */
export function withOption(job: unknown, option: string, value: unknown, told: string): unknown {
  const path = option.replaceAll(/\[(\d*)\]/g, (_, at) => `.${at || "*"}`).split(".");
  return changed(job, path, value, told);
}

function changed(before: unknown, path: readonly string[], value: unknown, told: string): unknown {
  const [first = "", ...rest] = path;
  if (path.length === 0) return value;
  const inner = (one: unknown) => changed(one, rest, value, told);
  if (Array.isArray(before)) {
    if (first === "*") return before.map(inner);
    const at = Number(first);
    if (Number.isInteger(at) && at >= 0 && at < before.length) {
      return before.with(at, inner(before[at]));
    }
  } else if (before === undefined || (typeof before === "object" && before !== null)) {
    const own = (before ?? {}) as Record<string, unknown>;
    return { ...own, [first]: inner(Object.hasOwn(own, first) ? own[first] : undefined) };
  }
  throw expected(told, `an option that the job can have; there is no \`${first}\``, value);
}

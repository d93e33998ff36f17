// A summary of a job in a few lines: model, data and learning rates; and the differences between
// the jobs of two runs.

import { parse } from "yaml";
import { count, percent, plural } from "../../../../cli/support/format.ts";
import { longAsText, parseExactly } from "../../../../src/ports/json/exact-json.ts";
import type { RunStory } from "./run-story.ts";

export type Options = NonNullable<RunStory["options"]>;

/** The summary of a job's options, as names and values. */
export function jobLines(options: Options): [string, string][] {
  const values = new Map(options.map(({ option, value }) => [option, value]));
  const of = (option: string) => values.get(option);
  const figure = (option: string) => count(Number(of(option)));
  const rate = (part: string) => {
    const schedule = of(`optimizer.${part}.schedule.kind`);
    const rest = schedule === undefined || schedule === "constant" ? "" : `, ${schedule} schedule`;
    return `${of(`optimizer.${part}.kind`)}, rate ${of(`optimizer.${part}.learningRate`)}${rest}`;
  };
  const lines: [string, string | undefined][] = [
    ["Model", of("model.kind")],
    ["Tables", of("model.tables")],
    ["Data", of("data.paths") ? `${of("data.kind")}: ${of("data.paths")}` : of("data.kind")],
    [
      "Batch",
      of("data.batchSize") &&
        `${figure("data.batchSize")} samples, ${plural(Number(of("data.passes")), "epoch")}`,
    ],
    ["Dense layers", of("optimizer.dense.kind") && rate("dense")],
    ["Embeddings", of("optimizer.sparse.kind") && rate("sparse")],
    ["Seed", of("seed")],
  ];
  return lines.flatMap(([name, value]) => (value === undefined ? [] : [[name, value]]));
}

/** The numbers of samples for training, evaluation and test. */
export function dataLines({ prepared }: Pick<RunStory, "prepared">): [string, string][] {
  if (prepared === undefined) return [];
  const { samples, heldOut, test, quarantined } = prepared;
  const parts = [
    `${count(samples)} for training`,
    heldOut > 0 ? `${count(heldOut)} for evaluation` : "",
    test === undefined ? "" : `${count(test)} for the test`,
  ];
  const all = samples + heldOut + (test ?? 0) + quarantined;
  const bad = `${count(quarantined)} left out as unreadable, ${percent(quarantined / all)}`;
  return [
    ["Samples", parts.filter((part) => part !== "").join(", ")],
    ...(quarantined > 0 ? [["Bad lines", bad] as [string, string]] : []),
  ];
}

/** An option that differs between two jobs; "" where a job does not have it. */
export interface DifferingOption {
  readonly option: string;
  readonly values: readonly [string, string];
}

/** The options that differ between two jobs, in the order of the first job. */
export function differingOptions(one: Options, other: Options): DifferingOption[] {
  const [first, second] = [one, other].map(
    (options) => new Map(options.map(({ option, value }) => [option, value])),
  );
  const all = new Set([...(first?.keys() ?? []), ...(second?.keys() ?? [])]);
  return [...all].flatMap((option) => {
    const values = [first?.get(option) ?? "", second?.get(option) ?? ""] as const;
    return values[0] === values[1] ? [] : [{ option, values }];
  });
}

/**
 * The job, unchecked: the cluster checks it. Integers beyond 2^53 stay exact, as text.
 * @throws Error where it is neither YAML nor JSON
 */
export function jobOfText(text: string): unknown {
  const job = longAsText(parsed(text));
  if (typeof job === "object" && job !== null && !Array.isArray(job)) return job;
  throw new Error("Expected a job with `model` and `data`, in YAML or JSON");
}

function parsed(text: string): unknown {
  if (text.trimStart().startsWith("{")) {
    try {
      return parseExactly(text);
    } catch {
      // YAML has braces too, in which names need no quotes.
    }
  }
  try {
    return parse(text, { merge: true, intAsBigInt: true });
  } catch (cause) {
    const [why = ""] = (cause instanceof Error ? cause.message : String(cause)).split("\n");
    throw new Error(`The job is neither YAML nor JSON: ${why}`, { cause });
  }
}

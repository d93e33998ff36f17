// A sweep: a job, and values for some of its options. Deterministic: the same sweep always makes
// the same jobs.

import { createHash } from "node:crypto";
import { z } from "zod";
import { checkOptions, expected } from "../ports/check-options.ts";
import { purposes, RandomStream } from "../ports/random.ts";
import { comparedMetric } from "../training/loop/best-evaluation.ts";
import type { JobOptions } from "./job.ts";
import { usualOptimizer } from "./job-schema.ts";
import { withOption } from "./with-option.ts";

/** A range between two numbers, uniform or log-uniform, for a random search. */
const range = z.strictObject({
  min: z.number(),
  max: z.number(),
  scale: z.enum(["linear", "log"]).default("linear"),
  /** Whole numbers only. */
  integer: z.boolean().default(false),
});

const sweepOptions = z.strictObject({
  /** `grid`: every combination; `random`: `trials` random combinations, drawn by the `seed`. */
  search: z.enum(["grid", "random"]).default("grid"),
  trials: z.int().min(1).max(10_000).default(20),
  seed: z.int().min(0).default(1),
  /**
   * The metric that sorts trials: AUC, GAUC and R² are better when higher, the others when lower.
   * @default "auc", or "rmse" where the job's label is a number
   */
  metric: z.enum([...comparedMetric.options, "trainLoss"]).optional(),
  /** Values by option of the job, such as `model.tables[0].dim` (`[]`: all items of a list). */
  over: z.record(z.string().min(1), z.union([z.array(z.unknown()).min(1), range])),
});

export type Sweep = z.output<typeof sweepOptions>;

/** One job of a sweep. */
export interface SweptJob {
  readonly index: number;
  readonly values: Readonly<Record<string, unknown>>;
  readonly job: JobOptions;
  /** Key of its submission: submitting the same trial again returns the existing run. */
  readonly key: string;
}

/** Options that a sweep sets for each trial, and that `over` must not name. */
const ownOptions = ["name", "checkpoint.directory"];

/** More combinations are refused as a mistake. */
const trialsMax = 10_000;

/** Checks a sweep, and completes it with defaults. @throws InvalidOptionError */
export function sweepOf(value: unknown): Sweep {
  const sweep = checkOptions(sweepOptions, value, "sweep");
  if (Object.keys(sweep.over).length === 0) {
    throw expected("sweep.over", "one option of the job or more, with their values", sweep.over);
  }
  for (const [option, values] of Object.entries(sweep.over)) {
    const at = `sweep.over.${option}`;
    if (ownOptions.includes(option)) {
      throw expected(at, "left out, as a trial's follows from the job's and its values", values);
    }
    if (Array.isArray(values)) continue;
    if (sweep.search === "grid") throw expected(at, "a list of values in a grid", values);
    if (values.min >= values.max)
      throw expected(`${at}.max`, `more than ${values.min}`, values.max);
    if (values.scale === "log" && values.min <= 0) {
      throw expected(`${at}.min`, "more than 0 where the scale is `log`", values.min);
    }
  }
  return sweep;
}

/**
 * Returns the jobs of a sweep, in order. @throws InvalidOptionError where the job has no such
 * option
 */
export function sweptJobsOf(job: JobOptions, sweep: Sweep): SweptJob[] {
  const all = sweep.search === "grid" ? gridOf(sweep) : drawnOf(sweep);
  const isOptimizer = Object.keys(sweep.over).some((option) => option.startsWith("optimizer."));
  const base = isOptimizer ? { ...job, optimizer: { ...usualOptimizer, ...job.optimizer } } : job;
  return all.map((values, index) => {
    const changed = Object.entries(values).reduce<unknown>(
      (before, [option, value]) => withOption(before, option, value, `sweep.over.${option}`),
      base,
    ) as JobOptions;
    const hash = createHash("sha256").update(JSON.stringify(changed)).digest("hex");
    const name = `${(job.name ?? "job").slice(0, 55)}-${hash.slice(0, 8)}`;
    const directory = `${job.checkpoint?.directory ?? "checkpoints"}/${hash.slice(0, 8)}`;
    const checkpoint = { ...changed.checkpoint, directory };
    return { index, values, key: `sweep-${hash}`, job: { ...changed, name, checkpoint } };
  });
}

function gridOf({ over }: Sweep): Record<string, unknown>[] {
  let all: Record<string, unknown>[] = [{}];
  for (const [option, values] of Object.entries(over)) {
    const list = Array.isArray(values) ? values : [];
    if (all.length * list.length > trialsMax) {
      throw expected("sweep.over", `at most ${trialsMax} combinations`, all.length * list.length);
    }
    all = all.flatMap((one) => list.map((value) => ({ ...one, [option]: value })));
  }
  return all;
}

function drawnOf({ over, trials, seed }: Sweep): Record<string, unknown>[] {
  return Array.from({ length: trials }, (_, trial) => {
    const stream = new RandomStream(seed, purposes.sweep, trial);
    const entries = Object.entries(over).map(([option, values]) => {
      if (Array.isArray(values)) return [option, values[stream.below(values.length)]];
      return [option, inRange(values, stream.uniform())];
    });
    return Object.fromEntries(entries) as Record<string, unknown>;
  });
}

function inRange({ min, max, scale, integer }: z.output<typeof range>, share: number): number {
  const value =
    scale === "log"
      ? Math.exp(Math.log(min) + share * (Math.log(max) - Math.log(min)))
      : min + share * (max - min);
  return integer ? Math.round(value) : value;
}

// Checks a job of asynchronous training. Its servers and trainers have no common step, so options
// that need one are refused. In all other modes, the section `async` is refused.

import type { z } from "zod";
import { isStreamed } from "../data/data-kinds.ts";
import { graphOf } from "../model/model.ts";
import { expected } from "../ports/check-options.ts";
import { type AsynchronousSpec, asynchronousOptions } from "./asynchronous-options.ts";
import type { jobSchema } from "./job-schema.ts";

type JobSpec = z.output<typeof jobSchema>;

/** The section `async` of a job in `mode: "async"`, which always has it. */
export function asynchronousOf({ mode, async }: Pick<JobSpec, "mode" | "async">): AsynchronousSpec {
  if (mode !== "async" || async === undefined) throw new RangeError("The job is not asynchronous");
  return async;
}

/** The job with the defaults of `async`, where its mode needs the section. */
export function withAsynchronous<Job extends Pick<JobSpec, "mode" | "async">>(job: Job): Job {
  if (job.mode !== "async" || job.async !== undefined) return job;
  return Object.freeze({ ...job, async: Object.freeze(asynchronousOptions.parse({})) });
}

/**
 * Refuses a job without common steps. `what`: the feature that needs them.
 * @throws InvalidOptionError
 */
export function checkSynchronous({ mode }: Pick<JobSpec, "mode">, what: string): void {
  if (mode === "async") throw expected("mode", `"exact" or "bounded" for ${what}`, mode);
}

/**
 * Refuses a custom model with batch statistics, which only the graph of its module shows.
 * @throws InvalidOptionError
 */
export function checkStatistics({ mode, model }: Pick<JobSpec, "mode" | "model">): void {
  if (mode !== "async" || model.kind !== "custom") return;
  const norm = graphOf(model).layout.parameters.find(({ isStatistic }) => isStatistic);
  if (norm === undefined) return;
  const why = `a module without statistics of a batch ${because} where no device sees a whole one`;
  throw expected("model.path", `${why}; it has \`${norm.name}\``, model.path);
}

/** An option that asynchronous training cannot follow: its path, the demand, and its value. */
type Refusal = readonly [path: string, isRefused: boolean, demand: string, value: unknown];

const because = 'in `mode: "async"`,';
const dealtRows = `"auto" ${because} whose servers deal tables themselves`;

/**
 * Refuses options that asynchronous training does not support, and `async` in other modes.
 * @throws InvalidOptionError
 */
export function checkAsynchronous(job: JobSpec): void {
  if (job.mode !== "async") {
    if (job.async === undefined) return;
    throw expected("async", 'left out, or `mode: "async"` beside it', job.async);
  }
  for (const [path, isRefused, demand, value] of refusalsOf(job)) {
    if (isRefused) throw expected(path, demand, value);
  }
}

function* refusalsOf(job: JobSpec): Generator<Refusal> {
  const { model, exchange, optimizer, pipeline, planner, data, checkpoint, placement } = job;
  const no = (why: string) => `left out ${because} ${why}`;
  for (const [i, table] of model.tables.entries()) {
    const at = `model.tables[${i}]`;
    const { dynamic, staleness, tier, dedup, l2Scope, sharding } = table;
    yield [`${at}.dynamic`, dynamic !== undefined, no("which counts no ids"), dynamic];
    yield [`${at}.staleness`, staleness > 0, no("where any read may be late"), staleness];
    const inMemory = `"memory" ${because} whose servers hold rows in memory`;
    yield [`${at}.tier`, tier !== "memory", inMemory, tier];
    yield [`${at}.dedup`, dedup, no("where a batch reads each row once"), dedup];
    const touched = `"touched" ${because} where rows have no common step`;
    yield [`${at}.l2Scope`, l2Scope !== "touched", touched, l2Scope];
    yield [`${at}.sharding`, sharding !== "auto", dealtRows, sharding];
  }
  const { forward, backward, dense, topk } = exchange;
  const whole = `"float32" ${because} whose servers send whole numbers`;
  yield ["exchange.forward", forward !== "float32", whole, forward];
  yield ["exchange.backward", backward !== "float32", whole, backward];
  yield ["exchange.dense", dense !== "float32", whole, dense];
  yield ["exchange.topk", topk !== undefined, no("without all-reduce"), topk];
  const hasNorm = "batchNorm" in model && model.batchNorm === true;
  yield ["model.batchNorm", hasNorm, no("where no device sees a whole batch"), true];
  const isDice = "activation" in model && model.activation === "dice";
  const relu = `"relu" ${because} where no device sees a whole batch`;
  yield ["model.activation", isDice, relu, "dice"];
  for (const part of ["dense", "sparse"] as const) {
    const { ema } = optimizer[part];
    yield [
      `optimizer.${part}.ema`,
      ema !== undefined,
      no("which averages nothing over steps"),
      ema,
    ];
  }
  const { partial, bits } = checkpoint;
  yield ["checkpoint.partial", partial !== undefined, no("where it always applies"), partial];
  yield ["checkpoint.bits", bits !== 32, `32 ${because} which never reduces precision`, bits];
  const { kind } = placement;
  yield ["placement.kind", kind !== "auto", dealtRows, kind];
  yield ["plan", job.plan !== undefined, no("whose servers follow no plan"), "a plan"];
  yield ["planner.adapt", planner.adapt !== undefined, no("which has no plan"), planner.adapt];
  yield ["pipeline.ahead", pipeline.ahead > 0, `0 ${because} see async.prefetch`, pipeline.ahead];
  yield ["data.ikjt", data.ikjt !== undefined, no("where a batch reads each row once"), data.ikjt];
  yield [
    "data.cache",
    isStreamed(data),
    `a directory ${because} where trainers read apart`,
    "none",
  ];
}

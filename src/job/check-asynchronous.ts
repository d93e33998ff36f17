// Checks a job of asynchronous training: its servers and trainers have no common step, so they
// refuse what needs one, and the section `async` belongs to no other mode.

import { expected } from "../ports/check-options.ts";
import { type AsynchronousSpec, asynchronousOptions } from "./asynchronous-options.ts";
import type { JobSpec } from "./job.ts";

/** The section `async` of a job, which one in `mode: "async"` always has. */
export function asynchronousOf({ mode, async }: Pick<JobSpec, "mode" | "async">): AsynchronousSpec {
  if (mode !== "async" || async === undefined) throw new RangeError("The job is not asynchronous");
  return async;
}

/** The job with the defaults of `async`, where its mode needs the section. */
export function withAsynchronous<Job extends Pick<JobSpec, "mode" | "async">>(job: Job): Job {
  if (job.mode !== "async" || job.async !== undefined) return job;
  return Object.freeze({ ...job, async: Object.freeze(asynchronousOptions.parse({})) });
}

/** An option that asynchronous training cannot follow: its path, the demand, and its value. */
type Refusal = readonly [path: string, isRefused: boolean, demand: string, value: unknown];

const because = 'in `mode: "async"`,';

/**
 * Refuses what asynchronous training cannot do, and its section in other modes.
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
  const { model, exchange, pipeline, planner } = job;
  const no = (why: string) => `left out ${because} ${why}`;
  for (const [i, table] of model.tables.entries()) {
    const at = `model.tables[${i}]`;
    const { dynamic, staleness, tier, dedup, l2Scope, sharding } = table;
    yield [`${at}.dynamic`, dynamic !== undefined, no("which counts no ids"), dynamic];
    yield [`${at}.staleness`, staleness > 0, no("where any read may be late"), staleness];
    const inMemory = `"memory" ${because} whose servers hold rows in memory`;
    yield [`${at}.tier`, tier !== "memory", inMemory, tier];
    yield [`${at}.dedup`, dedup, no("where a batch reads each row once"), dedup];
    yield [`${at}.l2Scope`, l2Scope === "table", no("where rows have no common step"), l2Scope];
    const dealt = `"auto" ${because} whose servers deal tables themselves`;
    yield [`${at}.sharding`, sharding !== "auto", dealt, sharding];
  }
  const hasNorm = "batchNorm" in model && model.batchNorm === true;
  yield ["model.batchNorm", hasNorm, no("where no device sees a whole batch"), true];
  yield ["plan", job.plan !== undefined, no("whose servers follow no plan"), "a plan"];
  yield ["planner.adapt", planner.adapt !== undefined, no("which has no plan"), planner.adapt];
  yield ["pipeline.ahead", pipeline.ahead > 0, `0 ${because} see async.prefetch`, pipeline.ahead];
  yield ["exchange.topk", exchange.topk !== undefined, no("without all-reduce"), exchange.topk];
  const { partial, bits } = job.checkpoint;
  yield ["checkpoint.partial", partial !== undefined, no("where it is the rule"), partial];
  yield ["checkpoint.bits", bits !== 32, `32 ${because} whose loss is lost updates alone`, bits];
  const { preprocessing } = job;
  yield ["preprocessing", preprocessing !== undefined, no("where trainers read"), preprocessing];
}

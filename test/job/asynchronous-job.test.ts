// A job with `mode: "async"`: its defaults, and what it refuses.

import test from "ava";
import { synthetic } from "../../src/data/sources.ts";
import { type JobOptions, jobIdentity, resolveJob } from "../../src/job/job.ts";
import { withOption } from "../../src/job/with-option.ts";
import { serverConstants } from "../../src/planner/cost/constants.ts";
import { planJob } from "../../src/training/planning/plan-job.ts";

const table = { name: "T0", rows: 10, dim: 4 };
const job: JobOptions = {
  mode: "async",
  model: { kind: "dlrm", dense: 2, tables: [table], bottom: [4], top: [3, 1] },
  data: synthetic({ samples: 100, batchSize: 10, dense: 2 }),
};
const defaults = { threads: 1, servers: 0, elastic: { every: 10 }, prefetch: 2, pushes: 4 };

test("an asynchronous job has the section `async`, and other jobs must not", (t) => {
  t.deepEqual(resolveJob(job).async, defaults);
  t.deepEqual(resolveJob({ ...job, async: { threads: 4 } }).async, { ...defaults, threads: 4 });
  t.is(resolveJob({ ...job, mode: "exact" }).async, undefined);
  t.throws(() => resolveJob({ ...job, mode: "bounded", async: {} }), {
    message: /Expected `async` to be left out, or `mode: "async"` beside it/,
  });
});

test("a resolved asynchronous job is read again as it was, with the same identity", (t) => {
  const resolved = resolveJob(job);
  t.deepEqual(resolveJob(JSON.parse(JSON.stringify(resolved))), resolved);
  const other = resolveJob({ ...job, async: { elastic: { every: 20 } } });
  t.not(jobIdentity(other), jobIdentity(resolved), "`every` changes the training");
  const threads = resolveJob({ ...job, async: { threads: 3, servers: 2 } });
  t.is(jobIdentity(threads), jobIdentity(resolved), "a run may continue with more threads");
});

test("a plan of an asynchronous job is refused, as its servers follow none", (t) => {
  const planned = { devices: { hosts: 1, perHost: 2 }, constants: serverConstants };
  t.throws(() => planJob(resolveJob(job), planned), {
    code: "INVALID_OPTION",
    message: /Expected `mode` to be "exact" or "bounded" for a plan, which the servers/,
  });
});

/** Option, value, and the demand of the error. */
const refused: readonly (readonly [option: string, value: unknown, demand: RegExp])[] = [
  ["model.tables[0].dynamic", { admission: { kind: "all" } }, /idBits|which counts no ids/],
  ["model.tables[0].staleness", 1, /where any read may be late/],
  ["model.tables[0].tier", "cached", /whose servers hold rows in memory/],
  ["model.tables[0].dedup", true, /where a batch reads each row once/],
  ["model.tables[0].l2Scope", "decayed", /rows have no common step|l2/],
  ["model.tables[0].sharding", "column-wise", /whose servers deal tables themselves/],
  ["model.batchNorm", true, /where no device sees a whole batch/],
  ["exchange.forward", "float16", /whose servers send whole numbers/],
  ["exchange.backward", "bfloat16", /whose servers send whole numbers/],
  ["exchange.dense", "bfloat16", /whose servers send whole numbers/],
  ["exchange.topk", { share: 0.1 }, /without all-reduce/],
  ["optimizer.dense.ema", {}, /which averages nothing over steps/],
  ["optimizer.sparse.ema", {}, /which averages nothing over steps/],
  ["checkpoint.partial", {}, /where it always applies/],
  ["checkpoint.bits", 8, /which never reduces precision/],
  ["planner.adapt", true, /which has no plan/],
  ["pipeline.ahead", 1, /see async.prefetch/],
  ["placement.kind", "device", /whose servers deal tables themselves/],
  ["async.elastic.share", 0, /a number > 0/],
  ["async.threads", 65, /a number <= 64/],
];

for (const [option, value, demand] of refused) {
  test(`an asynchronous job refuses ${option} with a sentence`, (t) => {
    const options = withOption(job, option, value, option) as JobOptions;
    const error = t.throws(() => resolveJob(options), { code: "INVALID_OPTION", message: demand });
    t.true(error?.message.includes(option.split(".").at(-1) ?? option), error?.message);
  });
}

// The plan of a run's generation: balanced load, memory shared by the devices of a host, and the
// plan's report.

import test from "ava";
import { type JobOptions, resolveJob } from "../../../src/job/job.ts";
import { defaultConstants } from "../../../src/planner/cost/constants.ts";
import { unpackPlan } from "../../../src/planner/packed-plan.ts";
import { writePlan } from "../../../src/planner/plan-file.ts";
import { planJob } from "../../../src/training/planning/plan-job.ts";
import type { RunPlan } from "../../../src/training/planning/plan-report.ts";
import { planRun, replanRun } from "../../../src/training/planning/run-plan.ts";

const constants = defaultConstants;
const plenty = 1e12;

/**
 * A job of tables of skewed sizes; none is so small that a copy on each device would be cheaper.
 */
function jobWith(more: Partial<JobOptions> = {}, table: object = {}, dim = 64) {
  const rows = [900_000, 400_000, 300_000, 90_000, 70_000, 50_000, 40_000, 30_000];
  return resolveJob({
    model: {
      kind: "dlrm",
      tables: rows.map((own, i) => ({ name: `T${i}`, rows: own, dim, rowBlocks: 8, ...table })),
      top: [8, 1],
    },
    data: { kind: "synthetic", samples: 1000, dense: 0, batchSize: 256, idsPerBag: 20 },
    ...more,
  });
}

/** Bytes of all weights and states of the job's tables. */
const tableBytes = 1_880_000 * (64 * 4 + 4 + 1);

function shardsOf({ plan }: RunPlan, job: ReturnType<typeof jobWith>) {
  return plan === undefined ? [] : unpackPlan(plan, job.model.tables).shards;
}

/** Statistics of data in which some features have many more ids than others. */
const statistics = [90, 60, 50, 40, 30, 20, 10, 5].map((idsMean) => {
  const window = { samples: 0, ids: 0, reuse: [] };
  return { idsSum: 1000 * idsMean, idsMean, idsMax: 2 * idsMean, distinctIds: 9e5, window };
});

test("the load is even on 3 hosts, and on the 2 that are left", (t) => {
  for (const hosts of [
    [1, 1, 1],
    [1, 1],
    [2, 1],
    [2, 2],
  ]) {
    const memoryBytes = plenty;
    const { plan, report } = planRun(jobWith(), { hosts, constants, memoryBytes, statistics });
    t.like(report, { by: "auto", statistics: true });
    t.true((report.imbalance ?? 9) <= 1.1, `${hosts}: ${report.imbalance}`);
    t.is(
      report.memoryBytes?.length,
      hosts.reduce((sum, count) => sum + count, 0),
    );
    const isEven = hosts.every((count) => count === hosts[0]);
    t.is(plan?.hosts, isEven ? hosts.length : 1, "unequal hosts are planned as one host");
  }
});

test("the same arguments give the same plan, and its hash is that of its file", (t) => {
  const job = jobWith();
  const setting = { hosts: [2], constants, memoryBytes: plenty };
  const found = planRun(job, setting);
  t.deepEqual(planRun(job, setting), found);
  t.truthy(found.plan);
  const plan = found.plan && unpackPlan(found.plan, job.model.tables);
  t.is(plan && writePlan(plan).sha256, found.report.sha256);
  t.is(found.report.constants, constants.source);
  t.is(found.report.statistics, false);
  t.is(Object.keys(found.report.tables ?? {}).length, 8);
});

test("a plan for more devices than a run may have is refused in one sentence", (t) => {
  const job = jobWith();
  const missingOn = (perHost: number) => {
    const found = planJob(job, { devices: { hosts: 2, perHost }, constants });
    return found.isFeasible ? found.missing : ["no plan"];
  };
  t.deepEqual(missingOn(4), []);
  const sentence = /^A run of the job has at most 8 devices, as its batches have 8 slices/;
  t.regex(missingOn(5).join("; "), sentence);
  t.is(missingOn(5).length, 1);
});

test("a run follows the job's schemes, its plan for these devices, and as-written", (t) => {
  const job = jobWith({}, { sharding: "row-wise" });
  const found = planRun(job, { hosts: [2], constants, memoryBytes: plenty });
  t.deepEqual(found.report.schemes, { "row-wise": 8 });

  const plain = jobWith();
  const free = planRun(plain, { hosts: [2], constants, memoryBytes: plenty });
  const text = free.plan && writePlan(unpackPlan(free.plan, plain.model.tables)).text;
  const planned = jobWith({ plan: JSON.parse(text ?? "") });
  const on2 = planRun(planned, { hosts: [2], constants, memoryBytes: plenty });
  t.is(on2.plan, undefined, "the job has the plan already");
  t.like(on2.report, { by: "plan", sha256: free.report.sha256 });
  t.is(planRun(planned, { hosts: [3], constants, memoryBytes: plenty }).report.by, "auto");

  const written = jobWith({ sharding: "as-written" });
  const asWritten = planRun(written, { hosts: [2], constants, memoryBytes: plenty });
  t.deepEqual(asWritten, { report: { by: "as-written" } });
});

test("a plan of the job, or after measured steps, is predicted as the search predicts it", (t) => {
  const exchange = { forward: "bfloat16", backward: "bfloat16" } as const;
  const job = jobWith({ exchange });
  const setting = { hosts: [2], constants, memoryBytes: plenty };
  const { plan, report } = planRun(job, setting);
  if (plan === undefined) return t.fail();
  const { text } = writePlan(unpackPlan(plan, job.model.tables));
  const given = planRun(jobWith({ exchange, plan: JSON.parse(text) }), setting);
  t.deepEqual(given.report, { ...report, by: "plan" });
  const measured = [{ plan, seconds: [0.001, 0.002] }];
  const { refined, report: later } = replanRun(job, setting, measured) ?? {};
  t.truthy(refined);
  t.is(refined?.planned, later?.stepSeconds);
});

test("a plan after measured steps leaves the marks of rows as much memory as the first", (t) => {
  const job = jobWith({}, {}, 4);
  const { plan } = planRun(job, { hosts: [2], constants, memoryBytes: plenty });
  if (plan === undefined) return t.fail();
  const measured = [{ plan, seconds: [0.001, 0.002] }];
  const kinds = [0.8, 1, 1.2, 1.4, 1.6, 1.8, 2, 3].map((times) => {
    const setting = { hosts: [2], constants, memoryBytes: times * 1_880_000 * 21 };
    const first = planRun(job, setting).report;
    t.is(replanRun(job, setting, measured)?.report.cached, first.cached, `${times}`);
    return first.cached === 0;
  });
  t.is(new Set(kinds).size, 2, "little memory, and enough");
});

test("the devices of a host share its memory", (t) => {
  const job = jobWith();
  // Too little for the tables on one host; enough on two.
  const memoryBytes = 0.75 * tableBytes;
  const tight = planRun(job, { hosts: [1, 1], constants, memoryBytes });
  t.is(tight.report.by, "auto");
  t.is(tight.report.cached, 0);
  for (const bytes of tight.report.memoryBytes ?? [plenty]) t.true(bytes <= memoryBytes);

  // The same memory on one host with two devices: some rows lie below memory.
  const below = planRun(job, { hosts: [2], constants, memoryBytes });
  t.true((below.report.cached ?? 0) > 0);
  t.is(below.report.note, "the tables do not fit into memory: some have rows below it");
  const [first = plenty, second = plenty] = below.report.memoryBytes ?? [];
  t.true(first + second <= memoryBytes);
  const caches = shardsOf(below, job).flatMap(({ cache }) => cache ?? []);
  const ddrBytes = caches.reduce((sum, cache) => sum + cache.ddrBytes, 0);
  t.true(first + second + ddrBytes <= memoryBytes, "caches in host memory count, too");
});

test("a plan keeps its pins, unless no plan with the pins fits", (t) => {
  const job = jobWith();
  const whole = { firstBlock: 0, blocks: 8, firstQuantum: 0, quanta: 2 };
  const pinsOn = (device: number, tables: readonly string[]) =>
    tables.map((table) => ({ table, ...whole, device, isFrozen: true }));
  const heldOn = (found: RunPlan, table: string) =>
    shardsOf(found, job).flatMap((one) => (one.table === table ? [one.device] : []));
  for (const hosts of [[2], [1, 1], [3], [2, 2]]) {
    const pins = pinsOn(1, ["T3", "T7"]);
    const found = planRun(job, { hosts, constants, memoryBytes: plenty, statistics, pins });
    t.is(found.unpinned, undefined);
    for (const table of ["T3", "T7"]) {
      t.deepEqual([...new Set(heldOn(found, table))], [1], `${table} on ${hosts}`);
    }
    t.true((found.report.imbalance ?? 9) <= 1.2, `${hosts}: ${found.report.imbalance}`);
  }
  const gone = { hosts: [2], constants, memoryBytes: plenty, pins: pinsOn(2, ["T3"]) };
  const without = planRun(job, { ...gone, pins: [] });
  t.deepEqual(planRun(job, gone), without, "pins on a missing device are ignored");
  // Each of two hosts has room for a little more than half of the tables: not for all.
  const memoryBytes = 0.6 * tableBytes;
  const pins = pinsOn(
    0,
    job.model.tables.map(({ name }) => name),
  );
  const found = planRun(job, { hosts: [1, 1], constants, memoryBytes, pins });
  t.regex(found.unpinned ?? "", /no plan was found that holds all pinned shards/);
  t.is(found.report.by, "auto");
  t.true(shardsOf(found, job).some(({ device }) => device === 1));
});

test("copies of tables take memory on every device", (t) => {
  const job = jobWith({}, { sharding: "data-parallel" });
  const of = (hosts: number[], memoryBytes: number) =>
    planRun(job, { hosts, constants, memoryBytes }).report;
  t.is(of([1, 1], 4 * tableBytes).by, "auto");
  t.is(of([2], 4 * tableBytes).by, "auto");
  t.is(of([1, 1], 1.9 * tableBytes).by, "auto");
  const lacking = of([2], 1.9 * tableBytes);
  t.is(lacking.by, "as-written");
  t.is(
    lacking.note,
    "no plan was found that fits into 0.901 GB of rows a host: each table is placed as written",
  );
});

test("one device needs no plan, except for the tiers of tables if memory is short", (t) => {
  const job = jobWith();
  const of = (memoryBytes: number) => planRun(job, { hosts: [1], constants, memoryBytes });
  t.deepEqual(of(plenty), { report: { by: "as-written" } });
  t.true((of(0.75 * tableBytes).report.cached ?? 0) > 0);
  // Partial recovery needs all rows in memory.
  const partial = jobWith({ mode: "bounded", checkpoint: { partial: {} } });
  const held = planRun(partial, { hosts: [1], constants, memoryBytes: 0.75 * tableBytes });
  t.is(held.plan, undefined);
  t.regex(held.report.note ?? "", /^no plan was found that fits/);
});

test("the report of a plan stays small with many tables", (t) => {
  const job = resolveJob({
    model: {
      kind: "dlrm",
      tables: Array.from({ length: 1000 }, (_, i) => ({ name: `T${i}`, rows: 1000, dim: 8 })),
      top: [1],
      interaction: "cat",
    },
    data: { kind: "synthetic", samples: 64, dense: 0, batchSize: 8 },
  });
  const { report } = planRun(job, { hosts: [2], constants, memoryBytes: plenty });
  t.is(report.tables, undefined);
  t.true(JSON.stringify(report).length < 500);
});

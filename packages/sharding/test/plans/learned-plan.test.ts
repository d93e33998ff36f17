// Plans of jobs by learned costs: complete columns, in the job's order, with room on every device.

import test from "ava";
import type { FeatureStatistics } from "../../../../src/data/cache/feature-statistics.ts";
import { InvalidOptionError } from "../../../../src/errors/errors.ts";
import { resolveJob } from "../../../../src/job/job.ts";
import { checkCover } from "../../../../src/planner/assess.ts";
import { defaultConstants } from "../../../../src/planner/cost/constants.ts";
import type { Setting } from "../../../../src/planner/cost/cost.ts";
import { untilDone } from "../../../../src/planner/paused.ts";
import { reuseOf } from "../../../../src/planner/reuse.ts";
import { planJob } from "../../../../src/training/planning/plan-job.ts";
import { workloadOf } from "../../../../src/training/planning/workload.ts";
import { drawnNetworks } from "../../../../test/helpers/cost-networks.ts";
import { costTableOf, jobParts } from "../../plans/learned-parts.ts";
import { type LearnedWays, learnedPlans } from "../../plans/learned-plan.ts";

const tables = [
  { name: "wide", rows: 200_000, dim: 256 },
  { name: "odd", rows: 1000, dim: 96, sharding: "table-wise" },
  { name: "narrow", rows: 5000, dim: 16 },
];
const job = resolveJob({
  model: { kind: "dlrm", dense: 0, dim: 16, tables, top: [8, 1] },
  data: { kind: "synthetic", samples: 1000, dense: 0, batchSize: 64, idsPerBag: 4 },
});
const devices = { hosts: 1, perHost: 4 };

function planLearned(own: typeof job, setting: Setting, ways: LearnedWays) {
  return untilDone(learnedPlans(ways)(own, setting, undefined));
}

test("tables that fit no device are cut by column quanta, each of which is placed once", (t) => {
  const workload = workloadOf(job);
  // A quarter of the wide table fits, half of it does not.
  const constants = { ...defaultConstants, memoryBytes: 90e6 };
  const setting = { workload, devices, constants };
  const { plan, search } = planLearned(job, setting, { costs: drawnNetworks(4, 2) });
  if (plan === undefined) return t.fail();
  t.is(checkCover(workload.tables, plan), undefined);
  const wide = plan.shards.filter(({ table }) => table === "wide");
  t.true(wide.length >= 4);
  t.true(wide.every(({ scheme, quanta }) => scheme === "column-wise" && quanta <= 2));
  t.true(plan.shards.some(({ table, scheme }) => table === "odd" && scheme === "table-wise"));
  t.is(search.whole, undefined);
  const found = planJob(job, {
    devices,
    constants,
    source: learnedPlans({ costs: drawnNetworks(4, 2) }),
  });
  if (!found.isFeasible) return t.fail();
  t.is(found.assessment.lacksBytes, 0);
  t.deepEqual(found.plan, plan);
  t.deepEqual(planLearned(job, setting, { costs: drawnNetworks(4, 2) }).plan, plan);
});

test("where the learned search finds no room, the plan is one by formulas, with a note", (t) => {
  // Only single blocks of `wide` fit: that takes more moves than a search tries.
  const constants = { ...defaultConstants, memoryBytes: 5e6 };
  const blocks = tables.map((table) => ({ ...table, rowBlocks: 64, sharding: "auto" }));
  const { model } = job;
  const own = {
    ...job,
    model: resolveJob({ ...job, model: { ...model, tables: blocks } } as never).model,
  };
  const many = { hosts: 1, perHost: 64 };
  const costs = drawnNetworks(64, 2);
  const found = planJob(own, { devices: many, constants, source: learnedPlans({ costs }) });
  if (!found.isFeasible) return t.fail();
  t.is(found.learned, undefined);
  t.regex(found.missing.join(), /No plan that the search by learned costs tried fits into memory/);
});

/** A job of these tables, and a setting of `perHost` devices with this much memory. */
function given(own: readonly object[], perHost: number, memoryBytes: number, more: object = {}) {
  const model = { kind: "dlrm", dense: 0, dim: 16, tables: own, top: [8, 1] };
  const data = { kind: "synthetic", samples: 1000, dense: 0, batchSize: 64, idsPerBag: 4 };
  const planned = resolveJob({ model, data, ...more } as never);
  const constants = { ...defaultConstants, memoryBytes };
  return { planned, setting: { devices: { hosts: 1, perHost }, constants } };
}

test("a table of one quantum that fits no device is cut by rows, each block placed once", (t) => {
  for (const perHost of [2, 4, 8]) {
    const own = [
      { name: "tall", rows: 400_000, dim: 32, rowBlocks: 16 },
      { name: "small", rows: 1000, dim: 32 },
    ];
    const bytes = (400_000 * 33 * 4) / perHost;
    const { planned, setting } = given(own, perHost, 1.3 * bytes + 2e6);
    const costs = drawnNetworks(perHost, 3);
    const found = planJob(planned, { ...setting, source: learnedPlans({ costs }) });
    if (!found.isFeasible || found.learned === undefined) return t.fail(`${perHost} devices`);
    t.is(found.assessment.lacksBytes, 0);
    const { tables } = workloadOf(planned);
    t.is(checkCover(tables, found.plan), undefined);
    const tall = found.plan.shards.filter(({ table }) => table === "tall");
    t.true(tall.length >= perHost && tall.every(({ scheme }) => scheme === "row-wise"));
    t.is(new Set(tall.map(({ device }) => device)).size, perHost);
    t.deepEqual(
      planJob(planned, { ...setting, source: learnedPlans({ costs }) }),
      found,
      "the same search gives the same plan",
    );
  }
});

test("a search that starts without room continues until there is room", (t) => {
  const own = tables.map((table) => ({ ...table, rowBlocks: 16, sharding: "auto" }));
  const { planned, setting } = given(own, 32, 20e6);
  const found = planJob(planned, {
    ...setting,
    source: learnedPlans({ costs: drawnNetworks(32, 2) }),
  });
  if (!found.isFeasible || found.learned === undefined) return t.fail();
  t.true(found.plan.shards.filter(({ table }) => table === "wide").length >= 16);
  t.is(found.assessment.lacksBytes, 0);
});

test("one table is cut by rows and columns, where neither alone is enough", (t) => {
  const own = [{ name: "large", rows: 100_000, dim: 64, rowBlocks: 2 }];
  const { planned, setting } = given(own, 4, 1.2 * 100_000 * 17 * 4 + 1e6);
  const found = planJob(planned, {
    ...setting,
    source: learnedPlans({ costs: drawnNetworks(4, 3) }),
  });
  if (!found.isFeasible) return t.fail();
  t.is(checkCover(workloadOf(planned).tables, found.plan), undefined);
  t.is(found.learned?.whole, undefined);
  t.deepEqual(
    found.plan.shards.map(({ scheme, blocks, quanta }) => [scheme, blocks, quanta]),
    [0, 1, 2, 3].map(() => ["grid", 1, 1]),
  );
});

test("tables that a job cuts by rows, copies or caches are planned so", (t) => {
  const own = [
    { name: "rows", rows: 4000, dim: 32, rowBlocks: 4, sharding: "row-wise" },
    { name: "copied", rows: 4000, dim: 32, sharding: "data-parallel" },
    { name: "below", rows: 50_000, dim: 32, sharding: "table-wise", tier: "cached" },
  ];
  const more = { tiers: { hbmBytes: 2e6, ddrBytes: 4e6 } };
  const { planned, setting } = given(own, 2, 1e9, more);
  const found = planJob(planned, {
    ...setting,
    source: learnedPlans({ costs: drawnNetworks(2, 3) }),
  });
  if (!found.isFeasible || found.learned === undefined) return t.fail();
  t.is(checkCover(workloadOf(planned).tables, found.plan), undefined);
  const of = (name: string) => found.plan.shards.filter(({ table }) => table === name);
  t.true(of("rows").length >= 2 && of("rows").every(({ scheme }) => scheme === "row-wise"));
  t.like(of("copied"), [{ scheme: "data-parallel", device: "all" }]);
  t.like(of("below"), [{ scheme: "table-wise", tier: "cached" }]);
  t.true((of("below")[0]?.cache?.hbmBytes ?? 0) > 0, "the plan gives the cache a size");
});

test("where memory is scarce, a table is cached, if the job allows it", (t) => {
  const own = [
    { name: "tall", rows: 400_000, dim: 32 },
    { name: "small", rows: 1000, dim: 32 },
  ];
  const { planned, setting } = given(own, 2, 40e6, { tiers: { hbmBytes: 20e6, ddrBytes: 0 } });
  const costs = drawnNetworks(2, 3);
  t.false(planJob(planned, { ...setting, source: learnedPlans({ costs }) }).isFeasible);
  const found = planJob(planned, { ...setting, source: learnedPlans({ costs }), cache: true });
  if (!found.isFeasible || found.learned === undefined) return t.fail();
  t.is(found.assessment.lacksBytes, 0);
  t.like(found.plan.shards, [{ table: "tall", tier: "cached" }, { table: "small" }]);
  t.true(found.learned.best?.steps.some(({ kind }) => kind === "cached"));
});

test("learned costs refuse a table with pinned parts, with the reason", (t) => {
  const own = [{ name: "pinned", rows: 4000, dim: 32, sharding: "table-wise" }];
  const { planned, setting } = given(own, 2, 1e9);
  const pin = { table: "pinned", firstBlock: 0, blocks: 1, firstQuantum: 0, quanta: 1 };
  const pins = [{ ...pin, device: 1, isFrozen: true }];
  t.throws(
    () =>
      planJob(planned, { ...setting, source: learnedPlans({ costs: drawnNetworks(2, 3) }), pins }),
    {
      instanceOf: InvalidOptionError,
      message: /without pins .* as `--cost-model` knows no other costs; pinned has pins: set its/,
    },
  );
});

test("half the rows get their share of the ids; formulas add costs networks do not know", (t) => {
  const own = [{ name: "tall", rows: 4000, dim: 32, rowBlocks: 4 }];
  const { planned, setting } = given(own, 2, 1e9);
  const workload = workloadOf(planned);
  const [table] = workload.tables;
  if (table === undefined) return t.fail();
  const popular = { ...table, idShares: [0.7, 0.1, 0.1, 0.1] };
  const { constants } = setting;
  const rounded = (value: number) => Math.round(1e9 * value) / 1e9;
  const slow = { ...constants, blocksFactor: 3 };
  const partsIn = (of: typeof table, own = constants) => {
    const tables = { ...workload, tables: [of] };
    const [whole] = jobParts(planned, { ...setting, workload: tables, constants: own });
    return { whole, halves: whole?.moves.get("rows")?.() ?? [] };
  };
  const { whole, halves } = partsIn(popular);
  t.deepEqual(
    halves.map(({ table: { rows, poolingFactor } }) => [rows, rounded(poolingFactor)]),
    [0.8, 0.2].map((share) => [2000, rounded(share * (whole?.table.poolingFactor ?? 0))]),
  );
  // With these constants the networks' costs cover a whole table; the costs of sums of blocks and
  // of the transfer of partial sums come from formulas.
  t.is(whole?.formulaMs, 0);
  t.true((partsIn(popular, slow).whole?.formulaMs ?? 0) > 0);
  t.true(halves.every(({ formulaMs }) => formulaMs > 0));
});

test("reuse is the counted one for a full window, and follows Zipf's law for a shorter one", (t) => {
  const workload = workloadOf(job);
  const [planned] = workload.tables;
  if (planned === undefined) return t.fail();
  const counted = (samples: number) => {
    const window = { samples, ids: samples * 4, reuse: [3, 1, ...new Array<number>(15).fill(0)] };
    return [{ window }] as unknown as readonly FeatureStatistics[];
  };
  const law = reuseOf(planned);
  t.deepEqual(costTableOf(job, planned, 0, undefined).bins, law);
  // The same rows are reused less in a short window than in those that networks are trained with.
  t.deepEqual(costTableOf(job, planned, 0, counted(8192)).bins, law);
  t.deepEqual(costTableOf(job, planned, 0, counted(65_536)).bins.slice(0, 3), [0.75, 0.25, 0]);
});

test("costs of two hosts plan devices on two hosts only", (t) => {
  const setting = {
    ...{ workload: workloadOf(job), constants: defaultConstants },
    devices: { hosts: 2, perHost: 2 },
  };
  const costs = { ...drawnNetworks(4, 2), hosts: 2 };
  const { plan } = planLearned(job, setting, { costs });
  t.deepEqual(plan?.devices, setting.devices);
  const refused = (own: LearnedWays, of: typeof setting, message: RegExp) =>
    t.throws(() => planLearned(job, of, own), { instanceOf: InvalidOptionError, message });
  refused({ costs: drawnNetworks(4, 2) }, setting, /devices on 2 hosts.*got those on 1; `osiris/);
  refused({ costs }, { ...setting, devices }, /devices on 1 hosts?, .*got those on 2/);
});

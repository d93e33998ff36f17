// Placements of tables: each kind puts the tables where its name says, whatever the number of
// devices, and trains the same bits.

import test from "ava";
import { resolveJob } from "../../../src/job/job.ts";
import { openKernels } from "../../../src/kernels/index.ts";
import { defaultConstants } from "../../../src/planner/cost/constants.ts";
import { unpackPlan } from "../../../src/planner/packed-plan.ts";
import { type PlacementSpec, serversOf, slicesBeside } from "../../../src/planner/placement.ts";
import { planJob } from "../../../src/training/planning/plan-job.ts";
import { planRun } from "../../../src/training/planning/run-plan.ts";
import { learnableBatch } from "../../helpers/batches/learnable-batch.ts";
import { startLocalDevices } from "../../helpers/devices/local-devices.ts";

const rows = [40, 9000, 3000];
const samples = 32;
/** Device memory for the smallest table and its buffers, and for no other table. */
const hbmBytes = 200_000;

function jobOf(placement: object, tiers: object = { hbmBytes }) {
  const tables = rows.map((own, i) => ({ name: `T${i}`, rows: own, dim: 32, rowBlocks: 4 }));
  return resolveJob({
    model: { kind: "dlrm", dense: 3, bottom: [8, 32], tables, top: [8, 1] },
    data: { kind: "synthetic", samples: 1000, dense: 3, batchSize: samples, idsPerBag: 2 },
    ...{ placement, tiers },
  });
}

/** Trains three steps on devices of these hosts, by the plan of a run; and scores a batch. */
async function train(placement: PlacementSpec, hosts: readonly number[]) {
  const job = jobOf(placement);
  const { model, slices, optimizer, seed, tiers } = job;
  const setting = { hosts, constants: defaultConstants, memoryBytes: 1e9 };
  const { plan: packed, report } = planRun(job, setting);
  const plan = packed && unpackPlan(packed, model.tables);
  const hostOf = hosts.flatMap((count, host) => new Array<number>(count).fill(host));
  const devices = hostOf.length;
  const servers = serversOf(placement, devices);
  const local = startLocalDevices({
    input: {
      ...{ model, slices, tiers, plan, batchSize: samples, idsMax: rows.map(() => 2) },
      sliceCounts: slicesBeside(slices, devices, servers),
    },
    ...{ recipe: { optimizer, seed }, devices, hostOf, kernels: () => openKernels("auto") },
  });
  const batch = (step: number) => learnableBatch({ samples, dense: 3, rows }, step);
  const losses: number[] = [];
  for (const step of [0, 1, 2]) losses.push(await local.train(batch(step), step));
  const scores = await local.evaluate([batch(3)]);
  return { plan, report, servers, model: { losses, scores, digest: await local.digest() } };
}

test("every placement trains the same bits, on one host and on two, and on fewer devices", async (t) => {
  const { model: expected } = await train({ kind: "auto", servers: 0 }, [1]);
  for (const [kind, asked, hosts] of [
    ["device", 0, [2]],
    ["host", 0, [1]],
    ["host", 0, [1, 1]],
    ["servers", 1, [2]],
    ["servers", 2, [2, 2]],
    ["servers", 2, [1]],
    ["hybrid", 0, [1, 1]],
    ["hybrid", 1, [1, 1]],
    ["hybrid", 1, [2, 1]],
  ] as const) {
    const what = `${kind}, ${asked} servers, ${hosts}`;
    const { model, plan, report, servers } = await train({ kind, servers: asked }, hosts);
    t.deepEqual(model, expected, what);
    const isFitting = kind !== "device";
    t.deepEqual(report.placement, isFitting ? { kind, servers } : undefined, what);
    if (!isFitting) t.regex(report.note ?? "", /do not fit into `tiers.hbmBytes` of each device/);
    const trainers = hosts.reduce<number>((sum, count) => sum + count, 0) - servers;
    for (const { table, tier, device } of plan?.shards ?? []) {
      const isHot = table === "T0";
      const isNear = servers === 0 || (kind === "hybrid" && isHot);
      t.is(device !== "all" && device < trainers, isNear, `${what}: ${table}`);
      const isBelow = kind === "host" || (kind === "hybrid" && servers === 0 && !isHot);
      t.is(tier, isBelow ? "cached" : "memory", `${what}: ${table}`);
    }
  }
});

test("tables that fit are placed in device memory, and servers run no dense layers", (t) => {
  const devices = { hosts: 1, perHost: 4 };
  const of = (placement: object, tiers?: object) => {
    return planJob(jobOf(placement, tiers), { devices, constants: defaultConstants });
  };
  const wide = { hbmBytes: 1e8 };
  const near = of({ kind: "device" }, wide);
  t.true(near.isFeasible && near.plan.shards.every(({ tier }) => tier === "memory"));
  const short = of({ kind: "device" });
  t.true(!short.isFeasible && short.unmet.some(({ lacksBytes }) => lacksBytes > 0));
  const hybrid = of({ kind: "hybrid", servers: 1 }, wide);
  t.true(hybrid.isFeasible && hybrid.plan.shards.every(({ device }) => device !== 3));
  const [two, one] = [2, 3].map((servers) => of({ kind: "servers", servers }));
  if (two?.isFeasible !== true || one?.isFeasible !== true) return t.fail();
  t.is(one.assessment.stages.dense, 2 * two.assessment.stages.dense);
  t.true((two.assessment.devices[0]?.shards ?? 1) === 0);
});

test("a job refuses a placement that its devices or tables cannot follow, by field", (t) => {
  const refused = (placement: object, more: object, table: object = {}) => {
    const { model, ...job } = JSON.parse(JSON.stringify(jobOf({})));
    const [first, ...tables] = model.tables;
    const own = { ...model, tables: [{ ...first, ...table }, ...tables] };
    return t.throws(() => resolveJob({ ...job, model: own, placement, ...more }))?.message ?? "";
  };
  for (const [placement, more, table, message] of [
    [{ kind: "servers" }, {}, {}, "`placement.servers` to be at least 1 where"],
    [
      { kind: "host", servers: 1 },
      {},
      {},
      '`placement.servers` to be 0 where `placement.kind` is "h',
    ],
    [
      { kind: "servers", servers: 2 },
      { devices: 2 },
      {},
      "`placement.servers` to be at most 1, as",
    ],
    [{ kind: "servers", servers: 13 }, {}, {}, "`placement.servers` to be at most 12, the parts"],
    [
      { kind: "host" },
      { tiers: { ssd: "file" } },
      {},
      '`tiers.ssd` to be left out, or "none", where',
    ],
    [
      { kind: "host" },
      {},
      { sharding: "data-parallel" },
      "`model.tables[0].sharding` to be another",
    ],
    [{ kind: "device" }, {}, { tier: "cached" }, '`model.tables[0].tier` to be "memory" where'],
    [{ kind: "host" }, {}, { keep: "durable" }, '`model.tables[0].keep` to be "spill" where'],
    [{}, { tiers: { ssd: "none" } }, { keep: "durable" }, "`model.tables[0].keep` to be"],
    [{ kind: "device" }, { planner: { adapt: true } }, {}, "`planner.adapt` to be left out where"],
  ] as const) {
    t.true(refused(placement, more, table).startsWith(`Expected ${message}`), message);
  }
});

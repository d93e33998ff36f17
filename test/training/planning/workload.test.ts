// A job's workload for the planner: the bytes of its tables equal the bytes that the runtime
// reserves.

import test from "ava";
import { reuseBins } from "../../../src/data/cache/distinct-sample.ts";
import { prepareCache } from "../../../src/data/cache/prepare-cache.ts";
import { csv } from "../../../src/data/sources.ts";
import { type JobOptions, resolveJob } from "../../../src/job/job.ts";
import { stateWidth } from "../../../src/kernels/contract/kernels.ts";
import { shapesOf } from "../../../src/model/features.ts";
import { graphOf } from "../../../src/model/model.ts";
import { distinctRows } from "../../../src/planner/cost/distinct-rows.ts";
import { rowSchemes, schemes } from "../../../src/planner/shards.ts";
import { realDisk } from "../../../src/ports/disk.ts";
import { countedStatistics } from "../../../src/training/planning/counted-statistics.ts";
import { fittedZipf, workloadOf } from "../../../src/training/planning/workload.ts";
import { startDirectory } from "../../data/data-files.ts";

type Change = Partial<Pick<JobOptions, "data" | "optimizer">> & { tables?: object[] };

function startJob({ tables, ...change }: Change = {}) {
  return resolveJob({
    model: {
      kind: "dlrm",
      dense: 4,
      tables: tables ?? [{ name: "A", rows: 100, dim: 48 }],
      bottom: [8, 48],
      top: [16, 1],
    },
    data: { kind: "synthetic", samples: 100, dense: 4, batchSize: 32 },
    sharding: "as-written",
    ...change,
  });
}

test("weights and state have the bytes that the runtime reserves", (t) => {
  const tables = (["float32", "float16", "int8"] as const).map((precision) => {
    return { name: precision, rows: 100, dim: 48, precision };
  });
  for (const kind of ["sgd", "rowWiseAdagrad", "adam", "partialRowWiseAdam"] as const) {
    for (const ema of [undefined, {}]) {
      const job = startJob({ tables, optimizer: { sparse: { kind, ema } } });
      const state = 4 * stateWidth(kind, 48) + (ema ? 4 * 49 : 0); // A lag a column, and a step.
      for (const [i, planned] of workloadOf(job).tables.entries()) {
        t.is(planned.weightBytes, [4, 2, 1][i] ?? 0);
        const extra = planned.name === "int8" ? 2 : 1; // The touched mark; an exponent for int8.
        t.is(planned.dim * planned.stateBytes + planned.rowBytes, state + extra);
      }
    }
  }
});

test("a table keeps the job's sharding scheme, unless schemes are given", (t) => {
  const tables = [
    { name: "A", rows: 10, dim: 48, rowBlocks: 4 },
    { name: "B", rows: 10, dim: 48, sharding: "data-parallel" },
  ];
  const job = startJob({ tables });
  const schemesOf = (options = {}) => workloadOf(job, options).tables.map((table) => table.schemes);
  t.deepEqual(schemesOf(), [["table-wise"], ["data-parallel"]]);
  t.deepEqual(schemesOf({ schemes: ["row-wise"] }), [["row-wise"], ["row-wise"]]);
  t.deepEqual(
    workloadOf(job).tables.map((table) => table.rowBlocks),
    [4, 1],
  );
  t.deepEqual(workloadOf(job, { cache: true }).tables[0]?.tiers, ["memory", "cached"]);
});

test("a table without a sharding option may be cut in any way, where the job plans", (t) => {
  const tables = [
    { name: "free", rows: 10, dim: 48 },
    { name: "ids", rows: 10, dim: 48, idBits: 64, dynamic: {} },
    { name: "own", rows: 10, dim: 48, sharding: "row-wise" },
  ];
  const of = (sharding: "auto" | "as-written", options = {}) => {
    return workloadOf({ ...startJob({ tables }), sharding }, options).tables.map(
      (table) => table.schemes,
    );
  };
  t.deepEqual(of("auto"), [[...schemes], [...rowSchemes], ["row-wise"]]);
  t.deepEqual(of("as-written"), [["table-wise"], ["table-wise"], ["row-wise"]]);
  t.deepEqual(of("auto", { schemes: ["grid"] }), [["grid"], [...rowSchemes], ["grid"]]);
});

test("optimizers that need row-wide sums state their number of rounds", (t) => {
  for (const [kind, rounds] of [
    ["adam", 0],
    ["rowWiseAdagrad", 1],
    ["lamb", 1],
    ["partialRowWiseLamb", 2],
  ] as const) {
    t.is(workloadOf(startJob({ optimizer: { sparse: { kind } } })).tables[0]?.sumRounds, rounds);
  }
});

test("bag lengths are those of the data", (t) => {
  const range = { min: 2, max: 5 };
  const data = { kind: "synthetic", samples: 9, dense: 4, batchSize: 3, idsPerBag: range } as const;
  const bags = workloadOf(startJob({ data: { ...data, zipf: 0.5 } })).tables[0];
  t.like(bags, { poolingFactor: 3.5, zipf: 0.5 });
  const text = csv(["a.csv"], { label: "y", dense: ["a", "b", "c", "d"], batchSize: 3 });
  t.is(workloadOf(startJob({ data: text })).tables[0]?.poolingFactor, 1);
  t.is(workloadOf(startJob({ data: text }), { poolingFactor: 7 }).tables[0]?.poolingFactor, 7);
});

test("the statistics of a table's data decide its bag lengths and Zipf exponent", (t) => {
  const tables = ["A", "B"].map((name) => ({ name, rows: 5000, dim: 48 }));
  const job = startJob({ tables });
  const reuse = [...new Array<number>(reuseBins - 1).fill(0), 7];
  const window = { samples: 50, ids: 200, reuse };
  const counted = { idsSum: 400, idsMean: 4, idsMax: 9, distinctIds: 8, window };
  const [hot, cold] = workloadOf(job, { statistics: [counted] }).tables;
  t.like(hot, { poolingFactor: 4, distinctRowsMax: 8, zipf: fittedZipf(counted, 5000) });
  t.like(cold, { poolingFactor: 1, distinctRowsMax: undefined, zipf: 1.05 });
  const [least] = workloadOf(job, { statistics: [counted], poolingFactor: 2 }).tables;
  t.like(least, { poolingFactor: 2, distinctRowsMax: 8 });
  // No batch needs more distinct rows than the data have.
  t.is(hot && distinctRows(hot, 1_000_000), 8);
});

test("the statistics in a job's cache are found once it exists, and decide its plan", async (t) => {
  const cache = startDirectory(t);
  const tables = ["A", "B"].map((name) => ({ name, rows: 5000, dim: 48 }));
  const perFeature = { B: { idsPerBag: 20, zipf: 1.4 } };
  const data = { kind: "synthetic", samples: 3000, dense: 4, batchSize: 32, cache } as const;
  const job = startJob({ tables, data: { ...data, zipf: 0.4, perFeature } });
  t.is(countedStatistics(job), undefined);
  t.like(workloadOf(job).tables[1], { poolingFactor: 20, zipf: 1.4 });
  await prepareCache(job.data, shapesOf(job.model), realDisk);
  const counted = countedStatistics(job);
  t.is(counted?.samples, 3000);
  const [a, b] = workloadOf(job, { statistics: counted?.features }).tables;
  t.deepEqual([a?.poolingFactor, b?.poolingFactor], [1, 20]);
  t.true(Math.abs((a?.zipf ?? 0) - 0.4) < 0.15 && Math.abs((b?.zipf ?? 0) - 1.4) < 0.06);
});

test("dense parameters and flops equal those of the model's layers", (t) => {
  const job = startJob();
  const { denseParameters, denseFlop, batchSize } = workloadOf(job);
  t.is(denseParameters, graphOf(job.model).layout.length);
  // Two vectors make one pair of 48 columns.
  t.is(denseFlop, 6 * (denseParameters + 48));
  t.is(batchSize, 32);
});

test("products of a sample's own values count for the interaction, not for layers", (t) => {
  const tables = ["A", "B", "C"].map((name) => ({ name, rows: 100, dim: 48 }));
  const workload = workloadOf(startJob({ tables }));
  const { denseFlop, denseOwnProducts, denseLayers } = workload;
  const layers = 8 * (4 + 1) + 48 * (8 + 1) + 16 * (48 + 6 + 1) + (16 + 1);
  t.is(denseOwnProducts, 6 * 48); // Four vectors make six pairs.
  t.is(denseLayers, 4);
  t.is(denseFlop, 6 * (layers + 6 * 48));
});

test("lists that samples share are sent and computed once", (t) => {
  const tables = ["user", "item"].map((name) => ({ name, rows: 1000, dim: 8 }));
  const job = resolveJob({
    model: {
      kind: "dlrm",
      tables,
      features: [
        {
          ...{ column: "user", pooling: "none", maxLength: 4 },
          encoder: { kind: "attention" },
        },
        { column: "item" },
      ],
      top: [1],
    },
    data: { kind: "synthetic", samples: 1000, dense: 0, batchSize: 64, idsPerBag: 4 },
  });
  const ofGroup = (isChosen: boolean) =>
    workloadOf(job, { ikjt: [{ features: ["user"], factor: 4, isChosen }] });
  const [plain, left, shared] = [workloadOf(job), ofGroup(false), ofGroup(true)];
  t.deepEqual(left, plain);
  const [user, item] = shared.tables;
  t.is(user?.poolingFactor, (plain.tables[0]?.poolingFactor ?? 0) / 4);
  t.is(user?.lookups, (plain.tables[0]?.lookups ?? 0) / 4);
  t.is(item?.poolingFactor, plain.tables[1]?.poolingFactor);
  t.true(shared.denseFlop < plain.denseFlop / 2 && shared.denseFlop > plain.denseFlop / 4);
  t.is(shared.denseParameters, plain.denseParameters);
});

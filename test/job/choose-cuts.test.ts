// The row blocks and slices that are chosen for a job: the rule case by case; the choice depends on
// the job alone; a job with the chosen blocks trains the same bits on one device and on several.

import test from "ava";
import type { TableOptions } from "../../src/embedding/tables/options.ts";
import { withChosenCuts } from "../../src/job/choose-cuts.ts";
import { type JobOptions, jobIdentity, resolveJob } from "../../src/job/job.ts";
import { sliceCounts } from "../../src/job/job-schema.ts";
import { createReference } from "../../src/kernels/reference/reference.ts";
import { defaultConstants } from "../../src/planner/cost/constants.ts";
import { schemes } from "../../src/planner/shards.ts";
import { planJob } from "../../src/training/planning/plan-job.ts";
import { learnableBatch } from "../helpers/batches/learnable-batch.ts";
import { startLocalDevices } from "../helpers/devices/local-devices.ts";
import { fc } from "../helpers/properties.ts";

type Table = Omit<TableOptions, "name">;

function jobOf(tables: readonly Table[], more: Partial<JobOptions> = {}, batchSize = 512) {
  return {
    model: {
      kind: "dlrm",
      tables: tables.map((table, i) => ({ name: `T${i}`, ...table })),
      interaction: "cat",
      top: [4, 1],
    },
    data: { kind: "synthetic", samples: 1000, dense: 0, batchSize },
    ...more,
  } as JobOptions;
}

const blocksOf = (job: JobOptions) => resolveJob(job).model.tables.map((one) => one.rowBlocks);

/** A million rows of 64 columns have 260 MB with the state of row-wise Adagrad. */
const million = { rows: 1_000_000, dim: 64 };
const rowWise = { sharding: "row-wise" } as const;
const adam = { optimizer: { sparse: { kind: "adam" } } };
const bfloat16 = { precision: "bfloat16" } as const;

const cases: readonly [
  title: string,
  tables: readonly Table[],
  expected: number[],
  more?: object,
][] = [
  ["small tables", [{ rows: 20_000, dim: 16 }, million], [1, 1]],
  ["a table written row-wise", [{ rows: 20_000, dim: 16, ...rowWise }], [8]],
  ["the same with fewer slices", [{ rows: 20_000, dim: 16, ...rowWise }], [2], { slices: 2 }],
  ["a grid", [{ rows: 20_000, dim: 64, sharding: "grid" }], [8]],
  ["columns only", [{ rows: 20_000, dim: 64, sharding: "column-wise" }], [1]],
  ["twenty rows", [{ rows: 20, dim: 16, ...rowWise }], [4]],
  ["two rows", [{ rows: 2, dim: 16, ...rowWise }], [2]],
  ["one row", [{ rows: 1, dim: 16, ...rowWise }], [1]],
  ["a large table alone", [{ rows: 2_000_000, dim: 64 }], [8]],
  ["a large table among its like", Array(8).fill({ rows: 2_000_000, dim: 64 }), Array(8).fill(1)],
  ["a large table with most of the bytes", [million, { ...million, rows: 4e6 }], [1, 8]],
  ["a table of many parts of 1 GiB", Array(16).fill({ rows: 4e7, dim: 64 }), Array(16).fill(16)],
  ["the same rows in fewer bits", [{ rows: 2_000_000, dim: 64, ...bfloat16 }], [1]],
  ["more state", Array(8).fill({ ...million, rows: 1.5e6 }), Array(8).fill(2), adam],
  [
    "huge tables",
    [
      { rows: 5e8, dim: 64 },
      { rows: 2e8, dim: 64 },
    ],
    [64, 64],
  ],
  ["written numbers", [{ ...million, rows: 4e8, rowBlocks: 2 }], [2]],
];

for (const [title, tables, expected, more] of cases) {
  test(`the rule chooses the row blocks of ${title}`, (t) => {
    t.deepEqual(blocksOf(jobOf(tables, more)), expected);
  });
}

test("a batch has 8 slices, or more while each has 512 samples", (t) => {
  const slicesAt = (batchSize: number) => resolveJob(jobOf([million], {}, batchSize)).slices;
  const found = [1, 4096, 8191, 8192, 16_384, 65_536, 1_000_000].map(slicesAt);
  t.deepEqual(found, [8, 8, 8, 16, 32, 128, 1024]);
  t.is(resolveJob(jobOf([million], { slices: 4 }, 65_536)).slices, 4);
});

const tableArbitrary = fc.record({
  rows: fc.oneof(fc.integer({ min: 1, max: 100 }), fc.integer({ min: 1, max: 2 ** 31 - 1 })),
  dim: fc.integer({ min: 1, max: 512 }),
  sharding: fc.constantFrom("auto" as const, ...schemes),
  precision: fc.constantFrom("float32" as const, "bfloat16" as const, "int8" as const),
});

test("row blocks are a power of two, none is empty, and only the job decides them", (t) => {
  const arbitrary = fc.record({
    tables: fc.array(tableArbitrary, { minLength: 1, maxLength: 6 }),
    batchSize: fc.integer({ min: 1, max: 200_000 }),
    kind: fc.constantFrom("sgd" as const, "rowWiseAdagrad" as const, "adam" as const),
    devices: fc.integer({ min: 0, max: 128 }),
  });
  const property = fc.property(arbitrary, ({ tables, batchSize, kind, devices }) => {
    const optimizer = { sparse: { kind } };
    const job = resolveJob(jobOf(tables, { optimizer }, batchSize));
    t.true(sliceCounts.includes(job.slices) && job.slices >= 8);
    for (const { rows, rowBlocks, sharding } of job.model.tables) {
      t.true([1, 2, 4, 8, 16, 32, 64].includes(rowBlocks));
      t.true((rowBlocks - 1) * Math.ceil(rows / rowBlocks) < rows, "no block is empty");
      if (sharding === "row-wise" && rows > 64 ** 2) t.true(rowBlocks >= Math.min(64, job.slices));
    }
    // The choice depends neither on devices or placement, nor on whether `auto` is written.
    const isWritten = { devices, readers: 2, sharding: "as-written", slices: "auto" } as const;
    const named = tables.map((table) => ({ ...table, rowBlocks: "auto" as const }));
    const same = resolveJob(jobOf(named, { optimizer, ...isWritten }, batchSize));
    t.deepEqual(same.model, job.model);
    t.is(jobIdentity(same), jobIdentity(job));
    // A recorded job has the chosen numbers: a version with another rule keeps them.
    const record = JSON.parse(JSON.stringify(job));
    t.deepEqual(resolveJob(record), job);
    const other = structuredClone(record);
    for (const table of other.model.tables) table.rowBlocks = 2;
    t.true(
      withChosenCuts(other, other).model.tables.every(({ rowBlocks }: Table) => rowBlocks === 2),
    );
  });
  fc.assert(property, { numRuns: 200 });
});

test("two tables of 500 and 200 million rows get enough row blocks for 16 devices", (t) => {
  const tables = [5e8, 2e8].map((rows) => ({ rows, dim: 64 }));
  const job = resolveJob(jobOf(tables, {}, 8192));
  t.is(job.slices, 16);
  const devices = { hosts: 2, perHost: 8 };
  const found = planJob(job, { devices, constants: { ...defaultConstants, memoryBytes: 16e9 } });
  const used = found.isFeasible ? found.assessment.devices : [];
  t.is(used.length, 16);
  t.true(used.every(({ shards, cost }) => shards > 0 && cost > 0));
});

test("a row-wise table is cut over all devices, and trains the bits of one device", async (t) => {
  const tables = [
    { rows: 50, dim: 4, ...rowWise },
    { rows: 30, dim: 4 },
  ];
  const { model, slices, optimizer } = resolveJob(jobOf(tables));
  const batch = { samples: 24, dense: 0, rows: [50, 30] };
  const digests: string[] = [];
  for (const devices of [1, 2, 3]) {
    const local = startLocalDevices({
      input: { model, batchSize: 24, slices, idsMax: [2, 2] },
      recipe: { optimizer, seed: 5 },
      devices,
      kernels: () => createReference(),
    });
    for (const { topology, rank } of local.states) {
      const own = topology.heldBy[rank] ?? [];
      t.true(own.some(({ table, blocks }) => table === 0 && (devices === 1) === (blocks === 8)));
    }
    for (let step = 0; step < 3; step++) await local.train(learnableBatch(batch, step), step);
    digests.push(await local.digest());
  }
  t.is(new Set(digests).size, 1, `${digests}`);
});

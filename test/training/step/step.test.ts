// Law 4 of docs/architecture.md for one step: any number of devices, any interleaving and any
// placement of a table give the same bits. The cells are simulated, the rest is real.

import test from "ava";
import { optimizerOf } from "../../../bench/step/optimizers.ts";
import type {
  SparseOptimizerOptions,
  TableOptions,
} from "../../../src/embedding/tables/options.ts";
import { IdOutOfRangeError } from "../../../src/errors/errors.ts";
import type { Kernels } from "../../../src/kernels/contract/kernels.ts";
import { openKernels } from "../../../src/kernels/index.ts";
import { createReference } from "../../../src/kernels/reference/reference.ts";
import { type ModelOptions, modelOptions } from "../../../src/model/options.ts";
import { missingParts } from "../../../src/training/checkpoint/part-names.ts";
import { partsNeeded, restorePart } from "../../../src/training/checkpoint/parts.ts";
import { randomBatch } from "../../helpers/batches/random-batch.ts";
import { startLocalDevices, type WholeBatch } from "../../helpers/devices/local-devices.ts";
import { bytesOfParts } from "../../helpers/devices/parts.ts";
import { someOrAll } from "../../helpers/thinned.ts";

const batchSize = 21; // Slices of two and three samples; unequal shares on three devices.
const steps = 4;
const idsMax = [3, 1, 4];
const rows = [30, 12, 7];
const dense = 3;

const rowWise: SparseOptimizerOptions = {
  kind: "rowWiseAdagrad",
  learningRate: 0.1,
  initialAccumulator: 0.1,
};
const sparseKinds: readonly SparseOptimizerOptions[] = [
  { kind: "sgd", learningRate: 0.1 },
  { kind: "adagrad", learningRate: 0.1 },
  rowWise,
  { kind: "adam", learningRate: 0.01 },
];

function start(options: {
  devices: number;
  seed?: number;
  table?: Partial<TableOptions>;
  model?: Partial<ModelOptions>;
  sparse?: SparseOptimizerOptions;
  kernels?: Kernels;
}) {
  const model = modelOptions.parse({
    kind: "dlrm",
    dense,
    tables: rows.map((count, i) => ({
      name: `T${i}`,
      rows: count,
      dim: 5,
      pooling: i === 2 ? "mean" : "sum",
      ...options.table,
    })),
    bottom: [6, 5],
    top: [7, 1],
    ...options.model,
  });
  return startLocalDevices({
    input: { model, batchSize, slices: 8, idsMax },
    recipe: { optimizer: optimizerOf({ kind: "adam" }, options.sparse ?? rowWise), seed: 11 },
    devices: options.devices,
    kernels: () => options.kernels ?? createReference(),
    seed: options.seed ?? 1,
  });
}

/** Batch `step`; the last one is short, with fewer samples than slices. */
function batchOf(step: number): WholeBatch {
  const samples = step === steps - 1 ? 6 : batchSize;
  return randomBatch({ rows, idsMin: 0, idsMax, dense }, step, samples);
}

async function train(options: Parameters<typeof start>[0]) {
  const devices = start(options);
  const losses: number[] = [];
  for (let step = 0; step < steps; step++) losses.push(await devices.train(batchOf(step), step));
  const scores = [...(await devices.score(batchOf(steps)))];
  return { losses, scores, digest: await devices.digest() };
}

for (const sparse of sparseKinds) {
  test(`the bits are the same for any number of devices and interleaving: ${sparse.kind}`, async (t) => {
    const expected = await train({ devices: 1, sparse });
    t.is(new Set(expected.losses).size, steps);
    for (const devices of [2, 3, 5, 8]) {
      for (const seed of someOrAll("interleavings of a step", [1 + (devices % 3)], [1, 2, 3])) {
        t.deepEqual(await train({ devices, seed, sparse }), expected, `${devices} devices`);
      }
    }
  });
}

const models: Readonly<Record<string, Partial<ModelOptions>>> = {
  "with dropout": { dropout: 0.4, top: [9, 7, 1] },
  "with vectors side by side": { interaction: "cat" },
  "without dense features": { dense: 0, bottom: [] },
};

for (const [title, model] of Object.entries(models)) {
  test(`the bits are the same on 1, 2 and 3 devices: a model ${title}`, async (t) => {
    const isWithout = model.dense === 0;
    const trained = async (devices: number) => {
      const local = start({ devices, model });
      const losses: number[] = [];
      for (let step = 0; step < steps; step++) {
        const batch = batchOf(step);
        const own = isWithout ? { ...batch, dense: new Float32Array(0) } : batch;
        losses.push(await local.train(own, step));
      }
      return { losses, digest: await local.digest() };
    };
    const expected = await trained(1);
    t.deepEqual(await trained(2), expected);
    t.deepEqual(await trained(3), expected);
  });
}

for (const sparse of sparseKinds) {
  for (const table of [{}, { l2: 0.01 }, { rowBlocks: 2 as const }]) {
    const title = `${sparse.kind} ${JSON.stringify(table)}`;
    test(`a replicated table has the bits of one on a single device: ${title}`, async (t) => {
      const expected = await train({ devices: 1, sparse, table });
      const replicated = { ...table, sharding: "data-parallel" as const };
      for (const devices of [1, 2, 3]) {
        t.deepEqual(await train({ devices, sparse, table: replicated }), expected);
      }
    });
  }
}

test("L2 over a whole table changes rows that no sample looks up", async (t) => {
  const table = { l2: 0.1, sharding: "data-parallel" as const };
  const touched = await train({ devices: 1, table });
  const whole = await train({ devices: 1, table: { ...table, l2Scope: "table" } });
  t.not(whole.digest, touched.digest);
  t.deepEqual(await train({ devices: 3, table: { ...table, l2Scope: "table" } }), whole);
});

test("native kernels give the same bits on 1, 2 and 3 devices", async (t) => {
  const kernels = openKernels("auto");
  const expected = await train({ devices: 1, kernels });
  t.log(openKernels("auto").arithmetic);
  t.deepEqual(await train({ devices: 2, kernels }), expected);
  t.deepEqual(await train({ devices: 3, seed: 9, kernels }), expected);
});

for (const native of [false, true]) {
  const title = native ? "the kernels of this machine" : "the reference";
  test(`bfloat16 layers give the same bits on 1 to 3 devices, other than float32: ${title}`, async (t) => {
    const model = { precision: "bfloat16" as const };
    const kernels = native ? openKernels("auto") : createReference();
    const expected = await train({ devices: 1, kernels, model });
    t.deepEqual(await train({ devices: 2, kernels, model }), expected);
    t.deepEqual(await train({ devices: 3, seed: 9, kernels, model }), expected);
    const float32 = await train({ devices: 1, kernels });
    t.not(float32.digest, expected.digest);
    for (const [step, loss] of float32.losses.entries()) {
      const difference = Math.abs(loss - (expected.losses[step] ?? Number.NaN));
      t.true(difference < 2e-3 * loss, `step ${step}: ${difference} of ${loss}`);
    }
  });
}

for (const table of [{}, { rowBlocks: 2 as const }]) {
  const title = JSON.stringify(table);
  test(`repeated calls of an earlier step give the bits of new calls: ${title}`, async (t) => {
    const kernels = openKernels("reference");
    let repeats = 0;
    const recorded: Kernels["recorded"] = (work) => {
      const repeat = kernels.recorded(work);
      return repeat && (() => [repeats++, repeat()]);
    };
    const trained = async (own: Kernels) => {
      const devices = start({ devices: 3, kernels: own, table });
      // Device 2 gets equally many of 19 and of 20 samples, devices 0 and 1 do not.
      for (const [step, samples] of [21, 20, 20, 19, 19, 20].entries()) {
        await devices.train(randomBatch({ rows, idsMin: 0, idsMax, dense }, step, samples), step);
      }
      return devices.digest();
    };
    const expected = await trained(createReference());
    t.is(await trained({ ...kernels, recorded }), expected);
    t.true(repeats > 0);
  });
}

test("row blocks change the bits; the placement does not", async (t) => {
  const one = await train({ devices: 2 });
  const blocks = await train({ devices: 2, table: { rowBlocks: 4 } });
  t.not(blocks.digest, one.digest);
  t.deepEqual(await train({ devices: 3, table: { rowBlocks: 4 } }), blocks);
});

test("training lowers the loss on repeated samples", async (t) => {
  const local = start({ devices: 2 });
  const first = await local.train(batchOf(0), 0);
  let last = first;
  for (let step = 1; step < 60; step++) last = await local.train(batchOf(0), step);
  t.true(last < 0.85 * first, `${first} became ${last}`);
});

test("scoring initialises no row and changes no bit", async (t) => {
  const local = start({ devices: 2 });
  await local.train(batchOf(0), 0);
  const before = await local.digest();
  await local.score(batchOf(1));
  t.is(await local.digest(), before);
});

test("an id outside its table ends the step with the table's name, on any device", async (t) => {
  const local = start({ devices: 3 });
  const batch = batchOf(0);
  batch.ids[0] = 30;
  const error = await t.throwsAsync(local.train(batch, 0), { instanceOf: IdOutOfRangeError });
  t.regex(
    error?.message ?? "",
    /`T0` \(feature 0\) to lie in 0\.\.29, got 30 in sample \d+ of the batch/,
  );
});

test("parts written by 2 devices restore on 3, bit for bit", async (t) => {
  const expected = await train({ devices: 1 });
  const first = start({ devices: 2 });
  for (let step = 0; step < 2; step++) await first.train(batchOf(step), step);
  const parts = await bytesOfParts(first.states);
  t.deepEqual(missingParts(parts.keys(), first.topology.input.model.tables), []);
  const second = start({ devices: 3 });
  for (const state of second.states) {
    for (const name of partsNeeded(state, [...parts.keys()]))
      await restorePart(state, name, [[parts.get(name) ?? new Uint8Array()]]);
  }
  t.is(await second.digest(), await first.digest());
  for (let step = 2; step < steps; step++) {
    const loss = await second.train(batchOf(step), step);
    t.true(Object.is(loss, expected.losses[step]));
  }
  t.is(await second.digest(), expected.digest);
});

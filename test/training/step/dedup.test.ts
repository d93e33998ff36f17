// Tables with `dedup`: distinct rows are sent once and pooled on the samples' device, and no bit
// changes. Random plans of such tables are in sharding.test.ts, bytes in traffic.test.ts.

import test from "ava";
import { optimizerOf } from "../../../bench/step/optimizers.ts";
import type { TableOptions } from "../../../src/embedding/tables/options.ts";
import { IdOutOfRangeError, NonFiniteGradientError } from "../../../src/errors/errors.ts";
import type { ExchangeSpec } from "../../../src/exchange/options.ts";
import { openKernels } from "../../../src/kernels/index.ts";
import { createReference } from "../../../src/kernels/reference/reference.ts";
import { modelOptions } from "../../../src/model/options.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import { exactExchange } from "../../../src/training/topology/topology.ts";
import { startLocalDevices, type WholeBatch } from "../../helpers/devices/local-devices.ts";
import { someOrAll } from "../../helpers/thinned.ts";

const batchSize = 21;
const steps = 4;
const [dense, dim] = [3, 5];
const rows = [30, 9, 40];
const idsMax = [6, 3, 8];

interface Choice {
  readonly devices: number;
  readonly dedup?: boolean;
  readonly seed?: number;
  readonly table?: Partial<TableOptions>;
  readonly isNative?: boolean;
  readonly exchange?: ExchangeSpec;
}

/**
 * Three tables: a sum, a mean, and a weighted mean of four row blocks; ids beyond the rows are
 * repaired.
 */
function start({
  devices,
  dedup = true,
  seed = 1,
  table = {},
  isNative = false,
  exchange,
}: Choice) {
  const model = modelOptions.parse({
    kind: "dlrm",
    dense,
    tables: rows.map((count, i) => ({
      name: `T${i}`,
      rows: count,
      dim,
      dedup,
      ids: i === 0 ? "hash" : "clamp",
      pooling: i === 0 ? "sum" : "mean",
      rowBlocks: i === 2 ? 4 : 1,
      ...table,
    })),
    bottom: [6, dim],
    top: [7, 1],
  });
  return startLocalDevices({
    input: {
      model,
      batchSize,
      slices: 8,
      idsMax,
      weighted: [false, false, true],
      ...(exchange && { exchange }),
    },
    recipe: {
      optimizer: optimizerOf({ kind: "adam" }, { kind: "adam", learningRate: 0.01 }),
      seed: 11,
    },
    devices,
    kernels: () => (isNative ? openKernels("auto") : createReference()),
    seed,
  });
}

/** Batch `step`. Of the last two, one has fewer samples than devices, one has no id of table 1. */
function batchOf(step: number): WholeBatch {
  const stream = new RandomStream(5, 4, step);
  const samples = step === 2 ? 3 : batchSize;
  const lengths: number[] = [];
  const ids: number[] = [];
  for (const [feature, count] of rows.entries()) {
    for (let sample = 0; sample < samples; sample++) {
      const isNone = step === 3 && feature === 1;
      const length = isNone ? 0 : stream.below((idsMax[feature] ?? 0) + 1);
      lengths.push(length);
      for (let i = 0; i < length; i++) ids.push(stream.below(count + 3) - 1);
    }
  }
  return {
    samples,
    dense: Float32Array.from({ length: samples * dense }, () => stream.normal()),
    labels: Float32Array.from({ length: samples }, () => stream.below(2)),
    lengths: Int32Array.from(lengths),
    ids: Int32Array.from(ids),
    weights: Float32Array.from(ids, () => stream.uniform() - 0.25),
  };
}

async function train(choice: Choice) {
  const local = start(choice);
  const losses: number[] = [];
  for (let step = 0; step < steps; step++) losses.push(await local.train(batchOf(step), step));
  const scores = [...(await local.score(batchOf(steps)))];
  const evaluated = await local.evaluate([batchOf(0), batchOf(1)]);
  const lanes = local.states.flatMap((state) => state.lanes);
  const repaired = rows.map((_, i) =>
    lanes.reduce((sum, { localRows }) => sum + (localRows.repaired.get(`T${i}`) ?? 0), 0),
  );
  return { losses, scores, evaluated, repaired, digest: await local.digest() };
}

for (const isNative of [false, true]) {
  const kernels = isNative ? "native" : "reference";
  test(`distinct rows sent once train the same bits as pooled vectors: ${kernels}`, async (t) => {
    const expected = await train({ devices: 1, dedup: false, isNative });
    t.true(expected.repaired.every((count) => count > 0));
    for (const devices of [1, 2, 3, 5, 8]) {
      for (const seed of someOrAll("interleavings of distinct rows", [1 + (devices % 2)], [1, 2])) {
        t.deepEqual(await train({ devices, seed, isNative }), expected, `${devices} devices`);
      }
    }
  });
}

for (const exchange of [
  { ...exactExchange, forward: "float8e4m3", backward: "float8e5m2" },
  { ...exactExchange, forward: "int8", backward: "float32" },
  { ...exactExchange, forward: "float32", backward: "bfloat16" },
] as const) {
  const { forward, backward } = exchange;
  test(`distinct rows in ${forward}, ${backward} train the same bits on any devices`, async (t) => {
    const expected = await train({ devices: 1, exchange });
    t.notDeepEqual(expected.digest, (await train({ devices: 1 })).digest);
    t.notDeepEqual(expected.digest, (await train({ devices: 1, dedup: false, exchange })).digest);
    for (const devices of someOrAll("devices of distinct rows in fewer bits", [3], [2, 3, 5, 8])) {
      t.deepEqual(await train({ devices, exchange, isNative: false }), expected, `${devices}`);
    }
  });
}

test("a single device and replicated tables send no distinct rows", async (t) => {
  const expected = await train({ devices: 1, dedup: false });
  t.deepEqual(start({ devices: 1 }).topology.distinctBy.flat(), []);
  const copies: Choice = { devices: 3, table: { sharding: "data-parallel" } };
  t.deepEqual(start(copies).topology.distinctBy.flat(), []);
  t.deepEqual(await train(copies), expected);
});

test("with dedup, an id outside its table ends the step with the table's name", async (t) => {
  const local = start({ devices: 3, table: { ids: "reject" } });
  await t.throwsAsync(local.train(batchOf(0), 0), { instanceOf: IdOutOfRangeError });
});

test("a non-finite row update is found at the row's device, which knows no samples", async (t) => {
  const local = start({ devices: 2 });
  for (const { kernels, network } of local.states) kernels.fill(network.flat, 0);
  for (const { distinct, kernels } of local.states) {
    for (const [rows] of distinct.slabs.map(({ rowsOf }) => rowsOf)) {
      if (rows !== undefined) kernels.fill(rows.state, Number.NaN);
    }
  }
  const error = await t.throwsAsync(local.train(batchOf(0), 0), {
    instanceOf: NonFiniteGradientError,
  });
  t.regex(error.message, /table `T[012]` in step 0 is not finite \(a sum over the batch\)/);
  t.deepEqual(error.samples, []);
});

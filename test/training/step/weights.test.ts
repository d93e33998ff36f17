// Weighted bags in a step: the real step, exchange and kernels, under simulated cells.

import test from "ava";
import { optimizerOf } from "../../../bench/step/optimizers.ts";
import type { SparseOptimizerOptions } from "../../../src/embedding/tables/options.ts";
import { openKernels } from "../../../src/kernels/index.ts";
import { createReference } from "../../../src/kernels/reference/reference.ts";
import { modelOptions } from "../../../src/model/options.ts";
import { purposes, RandomStream } from "../../../src/ports/random.ts";
import { startLocalDevices, type WholeBatch } from "../../helpers/devices/local-devices.ts";

const batchSize = 21;
const rows = [30, 12, 7];
const dim = 5;
const steps = 3;

interface Choice {
  readonly devices?: number;
  readonly weighted?: readonly boolean[];
  readonly replicated?: boolean;
  readonly sparse?: SparseOptimizerOptions;
  readonly native?: boolean;
}

/**
 * Starts a model of concatenated vectors and one linear layer, whose step is easy to compute by
 * hand.
 */
function start({ devices = 1, weighted = [], replicated = false, sparse, native }: Choice) {
  const model = modelOptions.parse({
    kind: "dlrm",
    tables: rows.map((count, i) => ({
      name: `T${i}`,
      rows: count,
      dim,
      pooling: i === 2 ? "mean" : "sum",
      sharding: replicated ? "data-parallel" : "table-wise",
    })),
    top: [1],
    interaction: "cat",
  });
  return startLocalDevices({
    input: { model, batchSize, slices: 8, idsMax: [8, 8, 8], weighted },
    recipe: {
      optimizer: optimizerOf(
        { kind: "sgd", learningRate: 0.5 },
        sparse ?? { kind: "sgd", learningRate: 0.5 },
      ),
      seed: 11,
    },
    devices,
    kernels: () => (native === true ? openKernels("auto") : createReference()),
  });
}

interface WeightedBatch extends WholeBatch {
  readonly weights: Float32Array;
}

/**
 * A batch of bags of 0 to 4 ids with weights from `draw`; features without weights have weight 1.
 */
function batchOf(
  step: number,
  weighted: readonly boolean[],
  draw: (stream: RandomStream) => number = (stream) => stream.normal(),
): WeightedBatch {
  const stream = new RandomStream(5, purposes.syntheticIds, step);
  const [lengths, ids, weights]: [number[], number[], number[]] = [[], [], []];
  for (const [feature, count] of rows.entries()) {
    for (let sample = 0; sample < batchSize; sample++) {
      const length = stream.below(5);
      lengths.push(length);
      for (let i = 0; i < length; i++) {
        ids.push(stream.below(count));
        weights.push(weighted[feature] === true ? draw(stream) : 1);
      }
    }
  }
  return {
    samples: batchSize,
    dense: new Float32Array(0),
    labels: Float32Array.from({ length: batchSize }, () => stream.below(2)),
    lengths: Int32Array.from(lengths),
    ids: Int32Array.from(ids),
    weights: Float32Array.from(weights),
  };
}

async function train(choice: Choice, batches: (step: number) => WholeBatch) {
  const local = start(choice);
  const losses: number[] = [];
  for (let step = 0; step < steps; step++) losses.push(await local.train(batches(step), step));
  const scores = [...(await local.score(batches(steps)))];
  return { losses, scores, digest: await local.digest() };
}

test("a weighted step updates the rows like a float64 step by hand", async (t) => {
  const weighted = [true, false, true]; // Sum, sum and mean.
  for (const replicated of [false, true]) {
    for (const native of [false, true]) {
      const local = start({ weighted, replicated, native });
      const [state] = local.states;
      t.truthy(state);
      if (state === undefined) return;
      const { kernels, network, slab, replicas } = state;
      const { rowsOf } = replicated ? replicas : slab;
      const read = () => rowsOf.map((own, i) => [...kernels.readRows(own, 0, rows[i] ?? 0)]);
      const before = read();
      const dense = [...kernels.read(network.flat)];
      const batch = batchOf(0, weighted);
      const loss = await local.train(batch, 0);
      const hand = stepByHand(batch, before, dense);
      t.true(Math.abs(loss - hand.loss) < 1e-6, `loss ${loss}, by hand ${hand.loss}`);
      for (const [table, values] of read().entries()) {
        for (const [i, value] of values.entries()) {
          const wanted = hand.rows[table]?.[i] ?? Number.NaN;
          t.true(Math.abs(value - wanted) < 1e-6, `T${table}[${i}]: ${value}, by hand ${wanted}`);
        }
      }
    }
  }
});

/**
 * One step by hand. Logit = w . (pooled vectors) + b; SGD with rate 0.5 on the mean of the log
 * losses.
 */
function stepByHand(batch: WeightedBatch, tables: number[][], dense: readonly number[]) {
  const moved = tables.map((values) => [...values]);
  const lookups: { feature: number; sample: number; id: number; share: number }[] = [];
  let at = 0;
  for (const feature of rows.keys()) {
    for (let sample = 0; sample < batchSize; sample++) {
      const length = batch.lengths[feature * batchSize + sample] ?? 0;
      for (let i = 0; i < length; i++, at++) {
        const weight = batch.weights[at] ?? 0;
        const share = feature === 2 ? weight / length : weight;
        lookups.push({ feature, sample, id: batch.ids[at] ?? 0, share });
      }
    }
  }
  const logits = new Array<number>(batchSize).fill(dense[rows.length * dim] ?? 0);
  for (const { feature, sample, id, share } of lookups) {
    for (let c = 0; c < dim; c++) {
      const term = share * (tables[feature]?.[id * dim + c] ?? 0) * (dense[feature * dim + c] ?? 0);
      logits[sample] = (logits[sample] ?? 0) + term;
    }
  }
  let loss = 0;
  const dLogits = logits.map((logit, sample) => {
    const label = batch.labels[sample] ?? 0;
    loss += (Math.log1p(Math.exp(logit)) - label * logit) / batchSize;
    return (1 / (1 + Math.exp(-logit)) - label) / batchSize;
  });
  for (const { feature, sample, id, share } of lookups) {
    const own = moved[feature] ?? [];
    for (let c = 0; c < dim; c++) {
      const gradient = (dLogits[sample] ?? 0) * (dense[feature * dim + c] ?? 0) * share;
      own[id * dim + c] = (own[id * dim + c] ?? 0) - 0.5 * gradient;
    }
  }
  return { loss, rows: moved };
}

const kinds: readonly SparseOptimizerOptions[] = [
  { kind: "sgd", learningRate: 0.1 },
  { kind: "rowWiseAdagrad", learningRate: 0.1 },
  { kind: "partialRowWiseLamb", learningRate: 0.1 },
];

for (const sparse of kinds) {
  for (const native of [false, true]) {
    const kernels = native ? "the kernels of this machine" : "the reference";
    test(`weighted tables have the same bits on any devices: ${sparse.kind}, ${kernels}`, async (t) => {
      for (const weighted of [
        [true, true, true],
        [false, true, false],
      ]) {
        const trained = (choice: Choice) =>
          train({ weighted, sparse, native, ...choice }, (step) => batchOf(step, weighted));
        const expected = await trained({ devices: 1 });
        for (const devices of [2, 3]) t.deepEqual(await trained({ devices }), expected);
        if (sparse.kind === "partialRowWiseLamb") continue;
        for (const devices of [1, 3]) {
          t.deepEqual(await trained({ devices, replicated: true }), expected);
        }
      }
    });
  }
}

test("weights of 1 equal no weights, bit for bit", async (t) => {
  const all = [true, true, true];
  const plain = (step: number) => {
    const { weights: _, ...rest } = batchOf(step, all, () => 1);
    return rest;
  };
  const expected = await train({ devices: 2 }, plain);
  const ones = (step: number) => batchOf(step, all, () => 1);
  t.deepEqual(await train({ devices: 2, weighted: all }, ones), expected);
  t.deepEqual(await train({ devices: 2, weighted: [true, false, false] }, ones), expected);
  const other = await train({ devices: 2, weighted: all }, (step) => batchOf(step, all));
  t.not(other.digest, expected.digest);
});

test("an id of weight 2 counts like the same id twice", async (t) => {
  const weighted = [true, true];
  const alone = (step: number): WeightedBatch => {
    const batch = batchOf(step, weighted);
    const twoTables = batch.ids.subarray(0, 2 * batchSize).map((id) => id % 7);
    const ids = Int32Array.from([...twoTables, ...new Array<number>(batchSize).fill(3)]);
    const lengths = new Int32Array(3 * batchSize).fill(1);
    const weights = Float32Array.from(ids, (_, i) => (i < 2 * batchSize ? 2 : 1));
    return { ...batch, lengths, ids, weights };
  };
  const twice = (step: number): WholeBatch => {
    const { ids, weights: _, ...rest } = alone(step);
    const lengths = Int32Array.from(rest.lengths, (_, i) => (i < 2 * batchSize ? 2 : 1));
    return {
      ...rest,
      lengths,
      ids: Int32Array.from([...ids].flatMap((id, i) => (i < 2 * batchSize ? [id, id] : [id]))),
    };
  };
  const once = await train({ weighted, devices: 2 }, alone);
  const doubled = await train({ devices: 2 }, twice);
  // Sums over several samples associate in another order, so the last bits may differ.
  const [scores, wanted] = [once.scores, doubled.scores];
  t.true(scores.every((score, i) => Math.abs(score - (wanted[i] ?? Number.NaN)) < 1e-6));
});

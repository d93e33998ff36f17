// What bfloat16 layers cost in log loss: little beside what a model learns. The bench of that name
// (`npm run bench -- accuracy`) asks the same on a million samples and five seeds.

import test from "ava";
import { syntheticOptions } from "../../src/data/options.ts";
import { Sample } from "../../src/data/sample.ts";
import { SyntheticSamples } from "../../src/data/synthetic.ts";
import { sparseOptimizerOptions } from "../../src/embedding/options.ts";
import { openKernels } from "../../src/kernels/index.ts";
import { denseOptimizerOptions, modelOptions } from "../../src/model/options.ts";
import { evaluate } from "../../src/training/metrics.ts";
import { startLocalDevices, type WholeBatch } from "../helpers/local-devices.ts";

const batchSize = 256;
const steps = 240;
const heldOut = 16;
const tables = Array.from({ length: 4 }, (_, i) => {
  return { name: `T${i}`, rows: 50, dim: 8, initScale: 0.05 };
});

function batchOf(samples: SyntheticSamples, index: number): WholeBatch {
  const sample = new Sample({ dense: 4, features: tables.length });
  const batch = {
    samples: batchSize,
    dense: new Float32Array(4 * batchSize),
    labels: new Float32Array(batchSize),
    lengths: new Int32Array(tables.length * batchSize).fill(1),
    ids: new Int32Array(tables.length * batchSize),
  };
  for (let s = 0; s < batchSize; s++) {
    samples.fill(sample, index * batchSize + s);
    batch.dense.set(sample.dense, 4 * s);
    batch.labels[s] = sample.label;
    for (const table of tables.keys()) {
      batch.ids[table * batchSize + s] = sample.ids[table] ?? 0;
    }
  }
  return batch;
}

/** Log loss before and after training, on samples that are not trained on. */
async function train(precision: "float32" | "bfloat16", seed: number) {
  const top = [32, 16, 1];
  const shape = { dense: 4, tables, bottom: [16, 8], top, precision };
  const model = modelOptions.parse({ kind: "dlrm", ...shape });
  const optimizer = {
    dense: denseOptimizerOptions.parse({ kind: "adagrad", learningRate: 0.02 }),
    sparse: sparseOptimizerOptions.parse({ kind: "adagrad", learningRate: 0.05 }),
  };
  const local = startLocalDevices({
    input: { model, batchSize, slices: 8, idsMax: tables.map(() => 1) },
    recipe: { optimizer, seed },
    devices: 1,
    kernels: () => openKernels("auto"),
  });
  const samples = batchSize * (steps + heldOut);
  const options = { kind: "synthetic", batchSize, samples, dense: 4, seed } as const;
  const generated = new SyntheticSamples(syntheticOptions.parse(options), tables);
  const logLoss = async () => {
    const [logits, labels]: [number[], number[]] = [[], []];
    for (let i = steps; i < steps + heldOut; i++) {
      const batch = batchOf(generated, i);
      logits.push(...(await local.score(batch)));
      labels.push(...batch.labels);
    }
    return evaluate(Float32Array.from(logits), Float32Array.from(labels)).logLoss;
  };
  const before = await logLoss();
  for (let step = 0; step < steps; step++) await local.train(batchOf(generated, step), step);
  return { before, after: await logLoss() };
}

test("a model with layers in bfloat16 learns what a float32 one learns", async (t) => {
  let [learned, lost] = [0, 0];
  for (const seed of [1, 2, 3]) {
    const single = await train("float32", seed);
    const half = await train("bfloat16", seed);
    t.not(half.after, single.after);
    learned += single.before - single.after;
    lost += half.after - single.after;
  }
  t.log(`learned ${learned / 3}, of which bfloat16 lost ${lost / 3}`);
  t.true(learned > 0.1, `learned ${learned}`);
  t.true(Math.abs(lost) < 0.02 * learned, `lost ${lost} of ${learned}`);
});

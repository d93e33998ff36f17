// Question: what does a reduced precision cost in log loss? Two models are trained side by side,
// with the same seed on the same generated samples, one in float32, and scored on samples that
// neither has seen. No limit: the figure is the mean over seeds of the relative difference.

import { realClock } from "../src/clock.ts";
import { syntheticOptions } from "../src/data/options.ts";
import { Sample } from "../src/data/sample.ts";
import { SyntheticSamples } from "../src/data/synthetic.ts";
import { sparseOptimizerOptions } from "../src/embedding/options.ts";
import { createAtomicCells } from "../src/exchange/atomic-cells.ts";
import type { LocalBatch } from "../src/exchange/batch-ring.ts";
import { cellWords } from "../src/exchange/cells.ts";
import { layoutOf } from "../src/exchange/layout.ts";
import { createSharedMemoryExchange } from "../src/exchange/shared-memory.ts";
import { openKernels } from "../src/kernels/index.ts";
import type { DensePrecision } from "../src/kernels/kernels.ts";
import type { Precision } from "../src/kernels/precision.ts";
import { denseOptimizerOptions, type ModelSpec, modelOptions } from "../src/model/options.ts";
import { createDeviceState, type DeviceState } from "../src/training/device-state.ts";
import { evaluate } from "../src/training/metrics.ts";
import { forwardStep, trainStep } from "../src/training/step.ts";
import { exchangeShapeOf, topologyOf } from "../src/training/topology.ts";
import type { BenchRow } from "./report.ts";

const batchSize = 512;
/** Held-out samples for each that is trained on. */
const heldOut = 0.2;

export interface AccuracyBenchOptions {
  readonly samples: number;
  readonly seeds: number;
  /** What dense layers multiply. */
  readonly precision: DensePrecision;
  /** How rows are stored. */
  readonly rows: Precision;
}

export async function benchAccuracy(options: AccuracyBenchOptions): Promise<BenchRow[]> {
  const { samples, seeds, precision, rows: stored } = options;
  const differences: number[] = [];
  const rows: BenchRow[] = [];
  const name = `accuracy.${samples}.${precision}.${stored}-rows`;
  for (let seed = 1; seed <= seeds; seed++) {
    const [ours = Number.NaN, single = Number.NaN] = await logLosses(options, seed);
    const difference = 100 * (ours / single - 1);
    differences.push(difference);
    rows.push({
      name: `${name}.seed${seed}`,
      figure: ours,
      unit: "log loss",
      limit: single,
      limitIs: "float32",
      ratio: ours / single,
      spread: [ours, ours],
    });
  }
  const mean = differences.reduce((sum, one) => sum + one, 0) / seeds;
  const spread = [Math.min(...differences), Math.max(...differences)] as const;
  return [...rows, { name: `${name}.mean`, figure: mean, unit: "% more log loss", spread }];
}

/** Log loss on held-out samples after one pass: of the precision asked for, and of float32. */
async function logLosses(options: AccuracyBenchOptions, seed: number): Promise<number[]> {
  const { samples, precision, rows } = options;
  const single = modelOf("float32", "float32");
  const devices = [modelOf(precision, rows), single].map((model) => startDevice(model, seed));
  const batches = startBatches(single, samples * (1 + heldOut), seed);
  const steps = Math.ceil(samples / batchSize);
  for (let step = 0; step < steps; step++) {
    const batch = batches(step);
    for (const device of devices) await trainStep(device, batch, step, -1);
  }
  const logits: number[][] = devices.map(() => []);
  const labels: number[] = [];
  for (let at = steps; at < steps * (1 + heldOut); at++) {
    const batch = batches(at);
    labels.push(...batch.labels);
    for (const [i, device] of devices.entries()) {
      logits[i]?.push(...device.kernels.read(await forwardStep(device, batch)));
    }
  }
  return logits.map((own) => {
    return evaluate(Float32Array.from(own), Float32Array.from(labels)).logLoss;
  });
}

/** A model that learns what is planted in some 100,000 samples. */
function modelOf(precision: DensePrecision, stored: Precision): ModelSpec {
  const tables = Array.from({ length: 26 }, (_, i) => {
    return { name: `T${i}`, rows: 1000, dim: 16, initScale: 0.05, precision: stored };
  });
  const [bottom, top] = [
    [256, 64, 16],
    [256, 128, 1],
  ];
  return modelOptions.parse({ kind: "dlrm", dense: 13, tables, bottom, top, precision });
}

/** A device that is alone. */
function startDevice(model: ModelSpec, seed: number): DeviceState {
  const idsMax = model.tables.map(() => 1);
  const topology = topologyOf({ model, batchSize, slices: 8, idsMax }, 1);
  const shape = exchangeShapeOf(topology);
  const layout = layoutOf(shape);
  const kernels = openKernels("auto");
  const cells = createAtomicCells({
    words: new Int32Array(new SharedArrayBuffer(4 * cellWords(1, layout.cells))),
    participants: 1,
    participant: 0,
    generation: 1,
    deadlineMs: 600_000,
    clock: realClock,
  });
  const memory = new SharedArrayBuffer(layout.bytes);
  const exchange = createSharedMemoryExchange({ shape, rank: 0, memory, cells, kernels });
  const optimizer = {
    dense: denseOptimizerOptions.parse({ kind: "adagrad", learningRate: 0.02 }),
    sparse: sparseOptimizerOptions.parse({ kind: "adagrad", learningRate: 0.05 }),
  };
  return createDeviceState({ rank: 0, topology, recipe: { optimizer, seed }, kernels, exchange });
}

/** Batch by index, of generated samples. */
function startBatches(
  model: ModelSpec,
  samples: number,
  seed: number,
): (index: number) => LocalBatch {
  const data = syntheticOptions.parse({
    kind: "synthetic",
    batchSize,
    samples: Math.ceil(samples),
    dense: model.dense,
    seed,
  });
  const generator = new SyntheticSamples(data, model.tables);
  const sample = new Sample({ dense: model.dense, features: model.tables.length });
  return (index) => {
    const dense = new Float32Array(batchSize * model.dense);
    const labels = new Float32Array(batchSize);
    const ids = new Int32Array(model.tables.length * batchSize);
    for (let s = 0; s < batchSize; s++) {
      generator.fill(sample, index * batchSize + s);
      dense.set(sample.dense, s * model.dense);
      labels[s] = sample.label;
      for (const table of model.tables.keys()) {
        ids[table * batchSize + s] = sample.ids[table] ?? 0;
      }
    }
    return {
      ticket: index,
      samples: batchSize,
      batchSamples: batchSize,
      idCount: ids.length,
      dense,
      labels,
      lengths: new Int32Array(model.tables.length * batchSize).fill(1),
      ids,
    };
  };
}

// Question: what do vectors and dense gradients in fewer bits cost in log loss and AUC on real
// data? Models of each format train side by side on Frappe's training samples, with the same seed
// and order, and are scored on its test samples. No limit: figures are means over seeds of the
// difference from float32. The rows `perturbed` show the noise: float32, beginning with weights
// cut to bfloat16.

import { existsSync } from "node:fs";
import { join } from "node:path";
import { Option } from "commander";
import { exchangeOptions } from "../../src/exchange/options.ts";
import { RandomStream } from "../../src/ports/random.ts";
import type { Metrics } from "../../src/training/loop/metrics.ts";
import type { DeviceState } from "../../src/training/step/device-state.ts";
import { trainStep } from "../../src/training/step/step.ts";
import { type Bench, positiveOption } from "../bench.ts";
import { type BenchRow, meanOf } from "../row.ts";
import { cutWeights, rangeOf } from "./accuracy.bench.ts";
import { batchOf, frappeModel, readFrappe, type Samples, scoreOf, shuffle } from "./frappe.ts";
import { optimizerOf } from "./optimizers.ts";
import { startSoloDevice } from "./solo-device.ts";

const batchSize = 512;

interface WireBenchOptions {
  readonly data: string;
  readonly seeds: number;
  readonly epochs: number;
}

/** The exchange of each model; the first is the reference of the others. */
const contenders: Readonly<Record<string, object>> = {
  float32: {},
  perturbed: {},
  "float16-bfloat16": { forward: "float16", backward: "bfloat16" },
  bfloat16: { forward: "bfloat16", backward: "bfloat16" },
  int8: { forward: "int8", backward: "int8" },
  float8: { forward: "float8e4m3", backward: "float8e5m2" },
  "float8-unscaled": {
    ...{ forward: "float8e4m3", backward: "float8e5m2" },
    ...{ forwardScale: 1, backwardScale: 1 },
  },
  "float8e4m3-both": { forward: "float8e4m3", backward: "float8e4m3" },
  "float8-forward": { forward: "float8e4m3" },
  "float8-backward": { backward: "float8e5m2" },
  "dense-bfloat16": { dense: "bfloat16" },
};
const names = Object.keys(contenders);
const figures = ["logLoss", "auc"] as const;
const units = { logLoss: "% more log loss", auc: "1e-4 less AUC" } as const;

export const wireBench: Bench<WireBenchOptions> = {
  question: "what vectors and dense gradients in fewer bits cost on real data, beside float32",
  options: [
    new Option("--data <folder>", "Frappe's train.csv.gz and test.csv.gz").default(
      "../shared/data/frappe",
    ),
    positiveOption("--seeds <count>", "models of each format", 5),
    positiveOption("--epochs <count>", "passes over the samples", 1),
  ],
  measurements({ data, seeds, epochs }) {
    if (!existsSync(join(data, "train.csv.gz"))) return [];
    const rows = names.slice(1).flatMap((name) => {
      return figures.flatMap((figure) => [
        `wire.${name}.${figure}`,
        `wire.${name}.${figure}.error`,
      ]);
    });
    const all = ["wire.float32.logLoss", "wire.float32.auc", ...rows];
    const measure = () => wireRows({ data, seeds, epochs });
    return [{ names: all, seconds: 25 * seeds * epochs, measure }];
  },
};

async function* wireRows({ data, seeds, epochs }: WireBenchOptions): AsyncGenerator<BenchRow> {
  const samples = readFrappe(data);
  const runs: Metrics[][] = [];
  for (let seed = 1; seed <= seeds; seed++) runs.push(await runSeed(samples, seed, epochs));
  for (const figure of figures) {
    const own = runs.map(([first]) => first?.[figure] ?? Number.NaN);
    const unit = figure === "auc" ? "AUC" : "log loss";
    yield { name: `wire.float32.${figure}`, figure: meanOf(own), unit, spread: rangeOf(own) };
  }
  for (const [i, name] of names.entries()) {
    if (i === 0) continue;
    for (const figure of figures) {
      const gaps = runs.map((run) => gapOf(figure, run[0]?.[figure], run[i]?.[figure]));
      const mean = meanOf(gaps);
      const variance = meanOf(gaps.map((gap) => (gap - mean) ** 2));
      const error = Math.sqrt(variance / Math.max(1, gaps.length - 1));
      const row = `wire.${name}.${figure}`;
      yield { name: row, figure: mean, unit: units[figure], spread: rangeOf(gaps) };
      yield { name: `${row}.error`, figure: error, unit: "standard error", spread: [error, error] };
    }
  }
}

function gapOf(figure: "logLoss" | "auc", exact = Number.NaN, own = Number.NaN): number {
  return figure === "auc" ? 1e4 * (exact - own) : 100 * (own / exact - 1);
}

/** Trains all models of a seed; returns their scores on the test samples. */
async function runSeed(samples: Samples, seed: number, epochs: number): Promise<Metrics[]> {
  const devices = names.map((name) => startDevice(samples.rows, name, seed));
  const stream = new RandomStream(seed, 1);
  const order = Int32Array.from(samples.train.labels.keys());
  const batches = Math.floor(order.length / batchSize);
  for (let step = 0; step < epochs * batches; step++) {
    const at = step % batches;
    if (at === 0) shuffle(order, stream);
    const batch = batchOf(samples.train, order.subarray(at * batchSize, (at + 1) * batchSize));
    for (const device of devices) await trainStep(device, batch, step, -1);
  }
  const scores: Metrics[] = [];
  for (const device of devices) scores.push(await scoreOf(device, samples.test, batchSize));
  return scores;
}

function startDevice(rows: readonly number[], name: string, seed: number): DeviceState {
  const model = frappeModel(rows, [128, 64, 1]);
  const exchange = exchangeOptions.parse(contenders[name]);
  const input = { model, batchSize, slices: 8, idsMax: rows.map(() => 1), exchange };
  const optimizer = optimizerOf(
    { kind: "adam", learningRate: 1e-3 },
    { kind: "rowWiseAdagrad", learningRate: 0.05 },
  );
  const device = startSoloDevice(input, { optimizer, seed });
  if (name === "perturbed") cutWeights(device);
  return device;
}

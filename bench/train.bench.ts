// Question: how many samples a second does a whole step train, forward, exchange, backward and
// update? Limit: what the processor's multiply-adds and the rows' traffic allow (step-limit.ts).

import { Worker } from "node:worker_threads";
import { sparseOptimizerOptions } from "../src/embedding/options.ts";
import { cellWords } from "../src/exchange/cells.ts";
import { layoutOf } from "../src/exchange/layout.ts";
import type { DensePrecision } from "../src/kernels/kernels.ts";
import { denseOptimizerOptions } from "../src/model/options.ts";
import type { Recipe } from "../src/training/device-state.ts";
import { exchangeShapeOf, topologyOf } from "../src/training/topology.ts";
import { type ConfigurationName, configuration } from "./configurations.ts";
import { type BenchRow, quantiles } from "./report.ts";
import { measureStepLimit } from "./step-limit.ts";
import type { TrainThreadData, TrainThreadReport } from "./train-thread.ts";

export interface TrainBenchOptions {
  readonly config: ConfigurationName;
  readonly batch: number;
  readonly devices: number;
  readonly optimizer: "sgd" | "adagrad" | "rowWiseAdagrad" | "adam";
  readonly seconds: number;
  readonly arithmetic: "auto" | "native" | "reference";
  readonly precision: DensePrecision;
}

export async function benchTrain(options: TrainBenchOptions): Promise<BenchRow> {
  const { config, batch, devices, optimizer, precision } = options;
  const [report] = await runSteps({ ...options, steps: Number.POSITIVE_INFINITY });
  const { median, spread } = quantiles(ratesOf(batch, report));
  const suffix = precision === "float32" ? "" : `.${precision}`;
  const name = `train.${config}.${batch}.${optimizer}.${devices}${suffix}`;
  const row = { name, figure: median, unit: "samples/s", spread };
  const limit = await measureStepLimit(configuration(config), devices, precision);
  if (limit.rate === 0) return row;
  return { ...row, limit: limit.rate, limitIs: limit.is, ratio: median / limit.rate };
}

/** Trains on device threads, until the seconds or the steps are over; a report of each device. */
export function runSteps(
  options: TrainBenchOptions & { readonly steps: number },
): Promise<TrainThreadReport[]> {
  const { config, batch, devices, optimizer, precision } = options;
  const { model, lookups } = configuration(config, precision);
  const input = { model, batchSize: batch, slices: 8, idsMax: model.tables.map(() => lookups) };
  const layout = layoutOf(exchangeShapeOf(topologyOf(input, devices)));
  const common = {
    ...options,
    name: config,
    recipe: recipeOf(optimizer),
    words: new SharedArrayBuffer(4 * cellWords(devices, layout.cells)),
    exchange: new SharedArrayBuffer(layout.bytes),
  };
  return Promise.all(Array.from({ length: devices }, (_, rank) => runThread({ ...common, rank })));
}

/** Samples/s of every step. */
export function ratesOf(batch: number, report: TrainThreadReport | undefined): number[] {
  return (report?.stepMs ?? []).map((ms) => (1000 * batch) / ms);
}

function runThread(data: TrainThreadData): Promise<TrainThreadReport> {
  const worker = new Worker(new URL("./train-thread.js", import.meta.url), { workerData: data });
  return new Promise((resolve, reject) => {
    worker.once("message", resolve);
    worker.once("error", reject);
  });
}

function recipeOf(kind: TrainBenchOptions["optimizer"]): Recipe {
  const isAdagrad = kind === "adagrad" || kind === "rowWiseAdagrad";
  const rates = { learningRate: 0.01, ...(isAdagrad ? { epsilon: 1e-10 } : {}) };
  const dense = denseOptimizerOptions.parse({
    kind: kind === "rowWiseAdagrad" ? "adagrad" : kind,
    ...rates,
  });
  return {
    optimizer: { dense, sparse: sparseOptimizerOptions.parse({ kind, ...rates }) },
    seed: 727,
  };
}

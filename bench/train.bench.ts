// Question: how many samples a second does a whole step train, forward, exchange, backward and
// update? Limit: the dense layers' operations at the speed of our own matrix product, all devices
// together.

import { Worker } from "node:worker_threads";
import { sparseOptimizerOptions } from "../src/embedding/options.ts";
import { cellWords } from "../src/exchange/cells.ts";
import { layoutOf } from "../src/exchange/shared-memory.ts";
import type { DensePrecision } from "../src/kernels/kernels.ts";
import { denseOptimizerOptions } from "../src/model/options.ts";
import type { Recipe } from "../src/training/device-state.ts";
import { exchangeShapeOf, topologyOf } from "../src/training/topology.ts";
import { type ConfigurationName, configuration } from "./configurations.ts";
import { type BenchRow, quantiles } from "./report.ts";
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
  const { config, batch, devices, optimizer, seconds } = options;
  const { arithmetic, precision } = options;
  const { model, lookups, flopPerSample } = configuration(config, precision);
  const input = { model, batchSize: batch, slices: 8, idsMax: model.tables.map(() => lookups) };
  const layout = layoutOf(exchangeShapeOf(topologyOf(input, devices)));
  const shared = {
    words: new SharedArrayBuffer(4 * cellWords(devices, layout.cells)),
    exchange: new SharedArrayBuffer(layout.bytes),
  };
  const kind = { precision, arithmetic };
  const common = { name: config, batch, devices, recipe: recipeOf(optimizer), seconds, ...kind };
  const reports = await Promise.all(
    Array.from({ length: devices }, (_, rank) => runThread({ ...common, ...shared, rank })),
  );
  const stepMs = reports[0]?.stepMs ?? [];
  const { median, spread } = quantiles(stepMs.map((ms) => (1000 * batch) / ms));
  const gflops = reports.reduce((sum, report) => sum + report.gemmGflops, 0);
  const limit = (gflops * 1e9) / flopPerSample;
  const suffix = precision === "float32" ? "" : `.${precision}`;
  return {
    name: `train.${config}.${batch}.${optimizer}.${devices}${suffix}`,
    figure: median,
    unit: "samples/s",
    limit,
    limitIs: `dense layers alone at ${gflops.toFixed(0)} GFLOP/s, our product on ${devices} threads`,
    ratio: median / limit,
    spread,
  };
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

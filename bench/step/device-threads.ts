// Trains whole steps, forward, exchange, backward and update, on device threads as a run does, with
// the batch reader and the tiers where the work has them. Benches of several folders use it.

import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { sparseOptimizerOptions } from "../../src/embedding/tables/options.ts";
import { ringLayoutOf } from "../../src/exchange/batch-ring.ts";
import { abortCells, cellWords } from "../../src/exchange/cells.ts";
import { layoutOf } from "../../src/exchange/layout.ts";
import type { DensePrecision } from "../../src/kernels/contract/kernels.ts";
import { denseOptimizerOptions } from "../../src/model/options.ts";
import { collectAlone } from "../../src/ports/launcher.ts";
import type { Recipe } from "../../src/training/step/device-state.ts";
import { exchangeShapeOf } from "../../src/training/topology/exchange-shape.ts";
import { ringShapeOf, topologyOf } from "../../src/training/topology/topology.ts";
import { type ConfigurationName, configuration } from "../configurations.ts";
import type { Feed, ReaderThreadData } from "./reader-thread.ts";
import { linkBytes } from "./slow-link.ts";
import { abortTier, tierMemoryOf } from "./tier-memory.ts";
import type { TierThreadData } from "./tier-thread.ts";
import type { TrainThreadData, TrainThreadReport } from "./train-thread.ts";
import type { TrainWork } from "./train-work.ts";

/** Configuration, size and arithmetic of a training. */
export interface TrainingOptions {
  readonly config: ConfigurationName;
  readonly batch: number;
  readonly devices: number;
  readonly optimizer: "sgd" | "adagrad" | "rowWiseAdagrad" | "adam";
  readonly seconds: number;
  readonly arithmetic: "auto" | "native" | "reference";
  readonly precision: DensePrecision;
}

/** Trains until the seconds or the steps are over. Resolves to the report of each device. */
export function runSteps(
  options: TrainingOptions & { readonly steps: number },
): Promise<TrainThreadReport[]> {
  return runDevices(benchWork(options));
}

/** The work of a configuration, with the defaults of `npm run bench -- train`. */
export function benchWork(
  options: Pick<TrainingOptions, "config" | "batch" | "devices" | "seconds"> &
    Partial<TrainingOptions & Pick<TrainWork, "steps">>,
): TrainWork {
  const { config, batch, devices, seconds, optimizer = "sgd", precision = "float32" } = options;
  const { arithmetic = "auto", steps = Number.POSITIVE_INFINITY } = options;
  const { model, lookups } = configuration(config, precision);
  const idsMax = model.tables.map(() => lookups);
  return {
    input: { model, batchSize: batch, slices: 8, idsMax },
    recipe: recipeOf(optimizer),
    batches: config === "c" ? 8 : 16,
    warmUpSteps: batch < 512 ? 300 : 5, // V8 compiles what a step calls after hundreds of calls.
    ...{ devices, depth: 3, seconds, steps, arithmetic },
  };
}

/**
 * Trains any model and plan. With `feed`, a reader feeds the devices from it; without, every device
 * has its batches in memory.
 */
export async function runDevices(work: TrainWork, feed?: Feed): Promise<TrainThreadReport[]> {
  const topology = topologyOf(work.input, work.devices);
  const layout = layoutOf(exchangeShapeOf(topology));
  const ringLayout = ringLayoutOf(ringShapeOf(topology));
  const participants = work.devices + 1;
  const words = new SharedArrayBuffer(4 * cellWords(participants, layout.cells + ringLayout.cells));
  const exchange = new SharedArrayBuffer(layout.bytes);
  const arrivals = new SharedArrayBuffer(linkBytes(work.devices));
  const ring = feed === undefined ? undefined : new SharedArrayBuffer(ringLayout.bytes);
  const readers =
    ring === undefined || feed === undefined
      ? []
      : [
          startThread("./reader-thread.js", {
            work,
            feed,
            words,
            ring,
          } satisfies ReaderThreadData),
        ];
  const tiers = Array.from({ length: work.devices }, (_, rank) =>
    tierMemoryOf(work, topology, rank),
  );
  const tierThreads = tiers.flatMap((tier, rank) =>
    tier === undefined
      ? []
      : [startThread("./tier-thread.js", { work, rank, tier } satisfies TierThreadData)],
  );
  const devices = Array.from({ length: work.devices }, (_, rank) => {
    const shared = { words, exchange, arrivals, ring, tier: tiers[rank] };
    return startThread("./train-thread.js", { work, rank, ...shared } satisfies TrainThreadData);
  });
  const reports = await Promise.all(devices.map((worker) => reportOf(worker)));
  const exits = [...readers, ...tierThreads].map((worker) => once(worker, "exit"));
  abortCells(new Int32Array(words), participants);
  for (const tier of tiers) if (tier !== undefined) abortTier(tier);
  await Promise.all(exits);
  return reports;
}

/** Samples/s of every step. */
export function ratesOf(batch: number, report: TrainThreadReport | undefined): number[] {
  return (report?.stepMs ?? []).map((ms) => (1000 * batch) / ms);
}

function startThread(entry: string, workerData: unknown): Worker {
  collectAlone();
  return new Worker(new URL(entry, import.meta.url), { workerData });
}

function reportOf(worker: Worker): Promise<TrainThreadReport> {
  return new Promise((resolve, reject) => {
    worker.once("message", resolve);
    worker.once("error", reject);
  });
}

function recipeOf(kind: TrainingOptions["optimizer"]): Recipe {
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

// Starts the threads of a bench that compares variants of a job, which train in turn.

import { Worker } from "node:worker_threads";
import { cellWords } from "../../src/exchange/cells.ts";
import { layoutOf } from "../../src/exchange/layout.ts";
import { exchangeShapeOf } from "../../src/training/topology/exchange-shape.ts";
import { type TopologyInput, topologyOf } from "../../src/training/topology/topology.ts";
import type { VariantsData, VariantsReport } from "./variants-thread.ts";

/** Trains the variants in turn on the same batches. Resolves to the report of each device. */
export function runVariants(
  inputs: readonly TopologyInput[],
  { devices, zipf, rounds }: Pick<VariantsData, "devices" | "zipf" | "rounds">,
): Promise<VariantsReport[]> {
  const variants = inputs.map((input) => {
    const layout = layoutOf(exchangeShapeOf(topologyOf(input, devices)));
    const words = new SharedArrayBuffer(4 * cellWords(devices, layout.cells));
    return { input, words, exchange: new SharedArrayBuffer(layout.bytes) };
  });
  return Promise.all(
    Array.from({ length: devices }, (_, rank) => {
      return runThread({ devices, zipf, rounds, rank, variants });
    }),
  );
}

function runThread(workerData: VariantsData): Promise<VariantsReport> {
  const worker = new Worker(new URL("./variants-thread.js", import.meta.url), { workerData });
  return new Promise((resolve, reject) => {
    worker.once("message", resolve);
    worker.once("error", reject);
  });
}

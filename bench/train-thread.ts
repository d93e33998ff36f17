// A device's thread in the benches of whole steps: the real step over the real exchange, fed from
// batches that were made before the clock starts, as its peer is.

import { parentPort, workerData } from "node:worker_threads";
import { realClock } from "../src/clock.ts";
import { createAtomicCells } from "../src/exchange/atomic-cells.ts";
import type { LocalBatch } from "../src/exchange/batch-ring.ts";
import { createSharedMemoryExchange } from "../src/exchange/shared-memory.ts";
import { openKernels } from "../src/kernels/index.ts";
import type { DensePrecision } from "../src/kernels/kernels.ts";
import { RandomStream } from "../src/random.ts";
import { createDeviceState, type Recipe } from "../src/training/device-state.ts";
import { trainStep } from "../src/training/step.ts";
import { exchangeShapeOf, samplesOf, topologyOf } from "../src/training/topology.ts";
import { type ConfigurationName, configuration } from "./configurations.ts";
import { type HeapReport, startHeapMeter } from "./heap.ts";

export interface TrainThreadData {
  readonly name: ConfigurationName;
  readonly batch: number;
  readonly devices: number;
  readonly rank: number;
  readonly recipe: Recipe;
  /** The bench ends after so long, or after so many steps, whatever comes first. */
  readonly seconds: number;
  readonly steps: number;
  readonly arithmetic: "auto" | "native" | "reference";
  readonly precision: DensePrecision;
  readonly words: SharedArrayBuffer;
  readonly exchange: SharedArrayBuffer;
}

export interface TrainThreadReport {
  /** Milliseconds of each step. */
  readonly stepMs: readonly number[];
  /** Over all those steps. */
  readonly heap: HeapReport;
}

const pooledBatches = { a: 16, b: 16, c: 8 } as const;
const warmUpSteps = 5;

const data = workerData as TrainThreadData;
const { name, batch, devices, rank } = data;
const kernels = openKernels(data.arithmetic);
const { model, lookups } = configuration(name, data.precision);
const input = { model, batchSize: batch, slices: 8, idsMax: model.tables.map(() => lookups) };
const topology = topologyOf(input, devices);
const cells = createAtomicCells({
  words: new Int32Array(data.words),
  participants: devices,
  participant: rank,
  generation: 1,
  deadlineMs: 600_000,
  clock: realClock,
});
const exchange = createSharedMemoryExchange({
  shape: exchangeShapeOf(topology),
  rank,
  memory: data.exchange,
  cells,
  kernels,
});
const device = createDeviceState({ rank, topology, recipe: data.recipe, kernels, exchange });
const pool = Array.from({ length: pooledBatches[name] }, (_, i) => makeBatch(i));

let step = 0;
for (; step < warmUpSteps; step++) await trainStep(device, batchOf(step), step, -1);
const stepMs: number[] = [];
const heap = startHeapMeter();
const startMs = performance.now();
let stopAfter = -1;
for (let isOver = false; !isOver; step++) {
  const beginMs = performance.now();
  // Device 0 asks for the end as it would ask for a pause: all stop after the same step.
  const isLast = stepMs.length + 1 >= data.steps || beginMs - startMs > 1000 * data.seconds;
  const asked = rank === 0 && isLast ? step + 1 : stopAfter;
  const outcome = await trainStep(device, batchOf(step), step, asked);
  stopAfter = outcome.stopAfter;
  isOver = stopAfter >= 0 && step + 1 >= stopAfter;
  stepMs.push(performance.now() - beginMs);
  heap.look();
}
const report: TrainThreadReport = { stepMs, heap: heap.stop() };
parentPort?.postMessage(report);

function batchOf(at: number): LocalBatch {
  const found = pool[at % pool.length];
  if (found === undefined) throw new RangeError("The pool is empty");
  return found;
}

function makeBatch(index: number): LocalBatch {
  const { count: samples } = samplesOf(topology, rank, batch);
  const random = new RandomStream(727 + rank, index);
  const tables = model.tables.length;
  const ids = new Int32Array(new SharedArrayBuffer(4 * tables * samples * lookups));
  const rows = model.tables[0]?.rows ?? 1;
  for (let i = 0; i < ids.length; i++) ids[i] = random.word() % rows;
  const dense = new Float32Array(new SharedArrayBuffer(4 * samples * model.dense));
  for (let i = 0; i < dense.length; i++) dense[i] = random.word() / 0x1_0000_0000;
  const labels = new Float32Array(new SharedArrayBuffer(4 * samples));
  for (let i = 0; i < samples; i++) labels[i] = random.word() & 1;
  const lengths = new Int32Array(tables * samples).fill(lookups);
  return {
    ticket: index,
    samples,
    batchSamples: batch,
    idCount: ids.length,
    dense,
    labels,
    lengths,
    ids,
  };
}

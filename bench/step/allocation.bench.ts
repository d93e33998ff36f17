// Question: what does a steady step allocate, and how long does a garbage collection stop it?
// Limits: what a batch of the first size allocates, since no allocation may grow with the batch; a
// pause of 5 ms.

import type { ConfigurationName } from "../configurations.ts";
import { type BenchRow, quantiles } from "../report.ts";
import type { HeapReport } from "./heap.ts";
import { runSteps } from "./train.bench.ts";

/** A small batch, whose bytes are the limit, and a large one. */
const batches = [128, 2048] as const;
const pauseMaxMs = 5;

export interface AllocationBenchOptions {
  readonly config: ConfigurationName;
  readonly devices: number;
  readonly steps: number;
}

export async function benchAllocation(options: AllocationBenchOptions): Promise<BenchRow[]> {
  const { config, steps } = options;
  const rows: BenchRow[] = [];
  let small: number | undefined;
  for (const batch of batches) {
    const train = { optimizer: "sgd", arithmetic: "auto", precision: "float32" } as const;
    const until = { steps, seconds: Number.POSITIVE_INFINITY };
    const reports = await runSteps({ ...options, ...train, ...until, batch });
    const heaps = reports.map((report) => report.heap);
    const allocated = allocationRow(`allocation.${config}.${batch}`, heaps, steps, small);
    small ??= allocated.figure;
    rows.push(allocated, pauseRow(`gc.${config}.${batch}`, heaps));
  }
  return rows;
}

/** Bytes of a step, heap and array buffers: median, least and most of the devices. */
function allocationRow(
  name: string,
  heaps: readonly HeapReport[],
  steps: number,
  limit: number | undefined,
): BenchRow {
  const bytes = heaps.map(({ heapBytes, externalBytes }) => (heapBytes + externalBytes) / steps);
  const { median, spread } = quantiles(bytes);
  const row = { name, figure: median, unit: "bytes/step", spread };
  if (limit === undefined) return row;
  const limitIs = `a batch of ${batches[0]}`;
  return { ...row, limit, limitIs, ratio: median / limit };
}

/** The longest pause of any device; the spread is of all pauses. */
function pauseRow(name: string, heaps: readonly HeapReport[]): BenchRow {
  const pausesMs = heaps.flatMap((heap) => heap.pausesMs);
  const longest = Math.max(0, ...pausesMs);
  const { spread } = quantiles(pausesMs.length > 0 ? pausesMs : [0]);
  const limit = { limit: pauseMaxMs, limitIs: "longest allowed", ratio: longest / pauseMaxMs };
  return { name, figure: longest, unit: "ms", spread, ...limit };
}

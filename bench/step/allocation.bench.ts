// Question: how many bytes does a steady step allocate, and how long does a garbage collection
// pause it? Limits: the bytes of a batch of 128, because allocations must not grow with the batch;
// a pause of 5 ms.

import { Option } from "commander";
import { type Bench, positiveOption, together } from "../bench.ts";
import { type ConfigurationName, configurationNames } from "../configurations.ts";
import { type BenchRow, quantiles } from "../row.ts";
import { runSteps } from "./device-threads.ts";
import type { HeapReport } from "./heap.ts";

/** A small batch, whose bytes are the limit, and a large batch. */
const batches = [128, 2048] as const;
const pauseMaxMs = 5;

interface AllocationBenchOptions {
  readonly config: ConfigurationName;
  readonly devices: number;
  readonly steps: number;
}

export const allocationBench: Bench<AllocationBenchOptions> = {
  question: "bytes that a steady step allocates, and the longest garbage collection",
  options: [
    new Option("--config <name>", "configuration, see bench/README.md")
      .choices(configurationNames)
      .default("a"),
    positiveOption("--devices <count>", "device threads", 2),
    positiveOption("--steps <count>", "steps of each batch size", 1000),
  ],
  measurements(options) {
    const { config, steps } = options;
    let small: number | undefined;
    return batches.map((batch) => {
      const names = [`allocation.${config}.${batch}`, `gc.${config}.${batch}`] as const;
      const seconds = 4 + (steps * batch * microsecondsOfSample[config]) / 1e6;
      return together(names, seconds, async () => {
        const heaps = await heapsOf(options, batch);
        const allocated = allocationRow(names[0], heaps, steps, small);
        small ??= allocated.figure;
        return [allocated, pauseRow(names[1], heaps)];
      });
    });
  },
};

const microsecondsOfSample = { a: 20, b: 32, c: 110, d: 32, w: 32 } as const;

async function heapsOf(options: AllocationBenchOptions, batch: number): Promise<HeapReport[]> {
  const train = { optimizer: "sgd", arithmetic: "auto", precision: "float32" } as const;
  const reports = await runSteps({
    ...{ ...options, ...train, batch },
    seconds: Number.POSITIVE_INFINITY,
  });
  return reports.map((report) => report.heap);
}

/** Bytes that a step allocates in the heap and in array buffers: median and spread over devices. */
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

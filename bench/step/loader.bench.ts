// Questions: does data larger than memory train as fast as data in memory? How many bytes of the
// file does a whole epoch read for each byte of samples? Limits: the same training from a cache in
// memory, in alternation; one byte.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Option } from "commander";
import { openCache } from "../../src/data/cache/cache-reader.ts";
import { EpochOrder, splitSamplesOf } from "../../src/data/sample-order.ts";
import { realDisk } from "../../src/ports/disk.ts";
import { type Bench, positiveOption } from "../bench.ts";
import { configuration } from "../configurations.ts";
import { type BenchRow, quantiles, rowOf } from "../row.ts";
import { benchWork, ratesOf, runDevices } from "./device-threads.ts";
import { type Caches, makeCaches } from "./large-cache.ts";
import type { CacheFeed } from "./reader-thread.ts";

interface LoaderBenchOptions {
  readonly batch: number;
  readonly devices: number;
  readonly megabytes: number;
  readonly readers: number;
  readonly rounds: number;
  readonly seconds: number;
  readonly directory: string;
  readonly keep: boolean;
}

/** Bytes of the cache that is read into memory whole. */
const smallBytes = 0xc00_0000;

export const loaderBench: Bench<LoaderBenchOptions> = {
  question: "samples/s of training from a large cache beside one in memory; bytes read for a byte",
  options: [
    positiveOption("--batch <samples>", "samples of a batch", 2048),
    positiveOption("--devices <count>", "device threads", 1),
    positiveOption("--megabytes <count>", "size of the large cache", 1000),
    positiveOption("--readers <count>", "readers of the whole epoch", 2),
    positiveOption("--rounds <count>", "rounds of each", 3),
    positiveOption("--seconds <seconds>", "of each round", 8),
    new Option("--directory <path>", "directory of the caches during the bench").default(tmpdir()),
    new Option("--keep", "reuse existing caches, and keep them").default(false),
  ],
  measurements(options) {
    const { batch, megabytes, rounds, seconds } = options;
    const names = [`loader.a.${batch}.stream`, `loader.a.${batch}.overRead`] as const;
    const about = 10 + megabytes / 100 + 2 * rounds * (seconds + 4);
    return [{ names, seconds: about, measure: (isWanted) => measure(names, options, isWanted) }];
  },
};

async function* measure(
  names: readonly [string, string],
  options: LoaderBenchOptions,
  isWanted: (name: string) => boolean,
): AsyncIterable<BenchRow> {
  const { keep } = options;
  const directory = keep
    ? join(options.directory, "osiris-loader")
    : mkdtempSync(join(options.directory, "osiris-loader-"));
  try {
    const { model } = configuration("a");
    const sizes = { small: smallBytes, large: 1e6 * options.megabytes };
    const caches = await makeCaches(directory, model, sizes);
    if (isWanted(names[0])) yield await streamRow(names[0], options, caches);
    if (isWanted(names[1])) yield await epochRow(names[1], options, caches);
  } finally {
    if (!keep) rmSync(directory, { recursive: true, force: true });
  }
}

async function streamRow(
  name: string,
  options: LoaderBenchOptions,
  { small, large, samples, bytes }: Caches,
): Promise<BenchRow> {
  const { batch, devices, seconds, rounds } = options;
  const work = benchWork({ config: "a", batch, devices, seconds });
  const { slices } = work.input;
  const splitSamples = splitSamplesOf({ samples, bytes, slices });
  const feeds = {
    stream: { path: large, splitSamples, memoryBytesMax: 0 },
    memory: { path: small, memoryBytesMax: 2 * smallBytes },
  } satisfies Record<string, CacheFeed>;
  const rates = { stream: [] as number[], memory: [] as number[] };
  for (let round = 0; round < rounds; round++) {
    for (const feed of ["memory", "stream"] as const) {
      const [report] = await runDevices(work, feeds[feed]);
      rates[feed].push(quantiles(ratesOf(batch, report)).median);
    }
  }
  const limitIs = "the same from memory, in the global order";
  const named = { name, unit: "samples/s", limitIs, target: [0.9, 1] as const };
  return rowOf(named, rates.stream, rates.memory);
}

/** Reads a whole epoch: one reader after the other reads its share of each batch. */
async function epochRow(
  name: string,
  { batch, readers }: LoaderBenchOptions,
  { large, samples, bytes }: Caches,
): Promise<BenchRow> {
  const { slices, idsMax, model } = benchWork({ config: "a", batch, devices: 1, seconds: 1 }).input;
  const split = { splitSamples: splitSamplesOf({ samples, bytes, slices }), slices };
  const order = new EpochOrder({ seed: 727, shuffle: true, split }, { samples, batchSize: batch });
  const memory = {
    dense: new Float32Array(batch * model.dense),
    labels: new Float32Array(batch),
    lengths: new Int32Array(batch * idsMax.length),
    ids: new Int32Array(batch * idsMax.length),
  };
  const sum = { file: 0, samples: 0 };
  for (let reader = 0; reader < readers; reader++) {
    const dataset = openCache(large, realDisk, 0);
    for (let first = 0; first < samples; first += batch) {
      const count = Math.min(batch, samples - first);
      const from = Math.floor((reader * count) / readers);
      const indices = new Float64Array(Math.floor(((reader + 1) * count) / readers) - from);
      const ranges = order.rangesAt(0, first + from, indices.length);
      await dataset.hold(ranges?.now ?? [], ranges?.next ?? []);
      order.fill(indices, 0, first + from);
      dataset.read(indices, memory);
    }
    const { bytesRead } = dataset;
    sum.file += bytesRead.file;
    sum.samples += bytesRead.samples;
    dataset.close();
  }
  const figure = sum.file / sum.samples;
  const limit = { limit: 1, limitIs: "bytes of the samples themselves", ratio: figure };
  return { name, figure, unit: "bytes/byte", spread: [figure, figure], ...limit };
}

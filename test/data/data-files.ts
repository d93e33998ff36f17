// Files for tests, in a directory that is removed when the test ends; and the real data.

import { mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { gzipSync } from "node:zlib";
import type { ExecutionContext } from "ava";
import { type CachedSamples, openCache } from "../../src/data/cache/cache-reader.ts";
import { type CacheReport, prepareCache } from "../../src/data/cache/prepare-cache.ts";
import type { BatchMemory, Dataset } from "../../src/data/dataset.ts";
import { type DataOptions, dataOptions, type TableShape } from "../../src/data/options.ts";
import { readFooter } from "../../src/data/parquet/footer.ts";
import { openRanges } from "../../src/data/tables/byte-ranges.ts";
import { groupWords } from "../../src/data/targets.ts";
import { checkOptions } from "../../src/ports/check-options.ts";
import { realDisk } from "../../src/ports/disk.ts";
import { dataHome } from "../helpers/needs.ts";

/** Makes a directory that is removed after the test; returns its real path. */
export function startDirectory(t: Pick<ExecutionContext, "teardown">): string {
  const directory = realpathSync(mkdtempSync(join(tmpdir(), "osiris-test-")));
  t.teardown(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/** Writes a text file, compressed if asked; returns its path. */
export function writeText(
  directory: string,
  file: { readonly name: string; readonly text: string | Buffer; readonly gzip?: boolean },
): string {
  const path = join(directory, file.name);
  writeFileSync(path, file.gzip === true ? gzipSync(file.text) : file.text);
  return path;
}

/** Checks the options and prepares their cache on the real disk. */
export function prepare(options: DataOptions, tables: readonly TableShape[]): Promise<CacheReport> {
  return prepareCache(checkOptions(dataOptions, options), tables, realDisk);
}

/** Opens a cache until the test ends. */
export function openCached(
  t: Pick<ExecutionContext, "teardown">,
  path: string,
  memoryBytesMax?: number,
): CachedSamples {
  const dataset = openCache(path, realDisk, memoryBytesMax);
  t.teardown(() => dataset.close());
  return dataset;
}

/** Samples as plain values: label, dense features, and a bag for each feature. */
export interface PlainSample {
  readonly label: number;
  /** All labels of a sample with several. */
  readonly labels?: readonly number[];
  readonly sampleWeight?: number;
  readonly group?: readonly number[];
  readonly dense: readonly number[];
  /** Ids by feature; bigints for 64-bit ids. */
  readonly bags: readonly (readonly (number | bigint)[])[];
  /** Weights in the layout of `bags`, if a feature has weights. */
  readonly weights?: readonly (readonly number[])[];
}

/** Allocates the arrays that `dataset.read` fills with a batch of `samples` samples. */
export function batchFor(dataset: Dataset, samples: number): BatchMemory {
  const { targets } = dataset;
  const idsMax = samples * dataset.idsMax.reduce((sum, ids) => sum + ids, 0);
  return {
    dense: new Float32Array(samples * dataset.dense),
    labels: new Float32Array(samples * targets.labels),
    sampleWeights: targets.hasSampleWeights ? new Float32Array(samples) : undefined,
    groups: targets.hasGroups ? new Float32Array(groupWords * samples) : undefined,
    lengths: new Int32Array(samples * dataset.features),
    ids: new Int32Array(idsMax),
    highs: dataset.wide.includes(true) ? new Int32Array(idsMax) : undefined,
    weights: dataset.weighted.includes(true) ? new Float32Array(idsMax) : undefined,
  };
}

/** The samples `indices` of a dataset (all by default), read as one batch. */
export function readPlain(dataset: Dataset, indices?: readonly number[]): PlainSample[] {
  const wanted = Float64Array.from(indices ?? Array.from({ length: dataset.samples }, (_, i) => i));
  const B = wanted.length;
  const { targets } = dataset;
  const batch = batchFor(dataset, B);
  const count = dataset.read(wanted, batch);
  const samples = Array.from({ length: B }, (_, b) => ({
    label: batch.labels[b * targets.labels] ?? 0,
    ...(targets.labels === 1
      ? {}
      : { labels: [...batch.labels.subarray(b * targets.labels, (b + 1) * targets.labels)] }),
    ...(batch.sampleWeights === undefined ? {} : { sampleWeight: batch.sampleWeights[b] ?? 0 }),
    ...(batch.groups === undefined
      ? {}
      : { group: [batch.groups[b] ?? 0, batch.groups[B + b] ?? 0] }),
    dense: [...batch.dense.subarray(b * dataset.dense, (b + 1) * dataset.dense)],
    bags: [] as (number | bigint)[][],
    ...(batch.weights === undefined ? {} : { weights: [] as number[][] }),
  }));
  let at = 0;
  for (let t = 0; t < dataset.features; t++) {
    for (const [b, sample] of samples.entries()) {
      const length = batch.lengths[t * B + b] ?? 0;
      const highs = dataset.wide[t] === true ? batch.highs?.subarray(at, at + length) : undefined;
      const lows = [...batch.ids.subarray(at, at + length)];
      sample.bags.push(highs === undefined ? lows : lows.map((low, i) => wholeId(low, highs[i])));
      sample.weights?.push([...(batch.weights ?? []).slice(at, at + length)]);
      at += length;
    }
  }
  if (at !== count) throw new Error(`read returned ${count} ids, the lengths say ${at}`);
  return samples;
}

/** A 64-bit id from its halves. */
export function wholeId(low: number, high = 0): bigint {
  return BigInt(high) * 2n ** 32n + BigInt(low >>> 0);
}

/** The path of a file of the real data. Tests that read it have the need `dataFile`. */
export function realData(file: string): string {
  return resolve(dataHome, file);
}

/** Overwrites a column's bytes in a row group with invalid pages, from the fraction `from` on. */
export async function damageColumn(
  path: string,
  rowGroup: number,
  column: string,
  from: number,
): Promise<void> {
  const file = await openRanges(path);
  const { groups } = await readFooter(file);
  await file.close();
  const chunk = groups[rowGroup]?.chunks.get(column);
  if (chunk === undefined) throw new Error(`no ${column}`);
  const bytes = readFileSync(path);
  bytes.fill(0xee, Math.floor(chunk.start + from * (chunk.end - chunk.start)), chunk.end);
  writeFileSync(path, bytes);
}

// Writes a binary cache, sample by sample (cache-format.ts has the format). One block is in memory.

import { createHash } from "node:crypto";
import { crc32 } from "node:zlib";
import type { DiskFile } from "../../ports/disk.ts";
import { Sample } from "../sample.ts";
import type { SplitKeys } from "../split-options.ts";
import { oneLabel, type Targets, targetWords } from "../targets.ts";
import {
  blockSamples,
  bytesOfKeys,
  type CacheMeta,
  headerBytes,
  onDisk,
  sampleHeadWords,
  writeFrame,
} from "./cache-format.ts";
import { StatisticsCollector } from "./feature-statistics.ts";

/** The progress of making a cache. */
export interface CacheProgress {
  readonly samples: number;
  readonly quarantined: number;
  /** Share of the input that is done, 0 to 1. */
  readonly fraction: number;
}

/** The shape of every sample in a cache. */
export interface CacheShape {
  readonly dense: number;
  readonly features: number;
  /** Whether the ids of each feature have 64 bits. */
  readonly wide: readonly boolean[];
  /** Whether the ids of each feature have weights; `[]`: no feature has them. */
  readonly weighted: readonly boolean[];
  /** What a sample has beside its features. @default one label */
  readonly targets?: Targets | undefined;
  /** Whether each label is a number; `[]`: all are classes. @default [] */
  readonly numeric?: readonly boolean[] | undefined;
  /** Rows of each feature's table; left out: unknown. */
  readonly rows?: readonly number[];
}

/** A cache being written. */
export class CacheWriter {
  readonly #file: DiskFile;
  readonly #shape: CacheShape;
  readonly #headWords: number;
  readonly #statistics: StatisticsCollector;
  readonly #digest = createHash("sha256");
  readonly #starts = new Uint32Array(blockSamples + 1);
  /** Words and checksum of each written block. */
  #table = new Uint32Array(1024);
  #blocks = 0;
  #offset = headerBytes;
  /** The records of the current block. */
  #words = new Int32Array(4096);
  #floats = new Float32Array(this.#words.buffer);
  #used = 0;
  #inBlock = 0;
  #samples = 0;
  #positives = 0;
  /** Of each label, where one is a number. */
  readonly #labelRanges: [number, number][];

  /** Writes to `file`. The caller syncs and closes the file. */
  constructor(file: DiskFile, shape: CacheShape) {
    this.#file = file;
    this.#shape = shape;
    this.#headWords = sampleHeadWords(shape);
    const isNumeric = shape.numeric?.includes(true) === true;
    this.#labelRanges = (isNumeric ? (shape.numeric ?? []) : []).map(() => [Infinity, -Infinity]);
    this.#statistics = new StatisticsCollector(shape.wide, shape.rows);
    const wide = shape.wide.includes(true) ? ` wide ${shape.wide}` : "";
    const weighted = shape.weighted.includes(true) ? ` weighted ${shape.weighted}` : "";
    const more = wide + weighted + digestOf(shape.targets ?? oneLabel);
    this.#digest.update(`dense ${shape.dense} features ${shape.features}${more}\n`);
  }

  /** A sample of the cache's shape, to be filled and appended. */
  newSample(): Sample {
    return new Sample(this.#shape);
  }

  /** Samples appended so far. */
  get samples(): number {
    return this.#samples;
  }

  /** Appends a copy of a sample. @throws StoreFailedError */
  append(sample: Sample): void {
    const { dense, lengths, idCount } = sample;
    this.#reserve(this.#headWords + 3 * idCount);
    let at = this.#used;
    at = this.#writeTargets(sample, at);
    for (let i = 0; i < dense.length; i++) this.#floats[at++] = dense[i] ?? 0;
    for (let feature = 0; feature < lengths.length; feature += 2) {
      this.#words[at++] = (lengths[feature] ?? 0) | ((lengths[feature + 1] ?? 0) << 16);
    }
    this.#used = this.#writeBags(sample, at);
    this.#statistics.add(sample);
    this.#samples++;
    if (this.#shape.numeric?.[0] !== true) this.#positives += sample.label;
    for (const [i, range] of this.#labelRanges.entries()) {
      const label = sample.labels[i] ?? 0;
      range[0] = Math.min(range[0], label);
      range[1] = Math.max(range[1], label);
    }
    this.#starts[++this.#inBlock] = this.#used;
    if (this.#inBlock === blockSamples) this.#endBlock();
  }

  /** Writes what a sample has beside its features from word `start` on. Returns the end. */
  #writeTargets({ labels, sampleWeight, group }: Sample, start: number): number {
    const { hasSampleWeights, hasGroups } = this.#shape.targets ?? oneLabel;
    let at = start;
    for (let i = 0; i < labels.length; i++) this.#floats[at++] = labels[i] ?? 0;
    if (hasSampleWeights) this.#floats[at++] = sampleWeight;
    if (hasGroups) for (let i = 0; i < group.length; i++) this.#floats[at++] = group[i] ?? 0;
    return at;
  }

  /** Writes the bags of a sample from word `start` on. Returns their end. */
  #writeBags({ lengths, ids, highs, weights }: Sample, start: number): number {
    let at = start;
    let first = 0;
    for (let feature = 0; feature < lengths.length; feature++) {
      const length = lengths[feature] ?? 0;
      const end = first + length;
      for (let i = first; i < end; i++) this.#words[at++] = ids[i] ?? 0;
      if (this.#shape.wide[feature] === true) {
        for (let i = first; i < end; i++) this.#words[at++] = highs[i] ?? 0;
      }
      if (this.#shape.weighted[feature] === true) {
        for (let i = first; i < end; i++) this.#floats[at++] = weights[i] ?? 0;
      }
      first = end;
    }
    return at;
  }

  /** Completes the file except for `sync`. @throws StoreFailedError */
  finish(
    rest: Pick<CacheMeta, "quarantine" | "means" | "warnings" | "sources" | "bestAuc" | "bestRmse">,
    keys?: SplitKeys,
  ): CacheMeta {
    if (this.#inBlock > 0) this.#endBlock();
    // The same samples with other keys fall into other parts: they are other data.
    if (keys !== undefined) this.#digest.update(bytesOfKeys(keys.values));
    const meta: CacheMeta = {
      samples: this.#samples,
      features: this.#shape.features,
      dense: this.#shape.dense,
      wide: this.#shape.wide,
      weighted: this.#shape.wide.map((_, feature) => this.#shape.weighted[feature] === true),
      idsMax: this.#statistics.idsMax,
      ...(isOneLabel(this.#shape.targets) ? {} : { targets: this.#shape.targets }),
      positives: this.#positives,
      ...(this.#labelRanges.length > 0 && { labelRanges: this.#labelRanges }),
      digest: this.#digest.digest("hex"),
      statistics: this.#statistics.finish(),
      ...rest,
      ...(keys && { keys: { form: keys.form, crc: crc32(bytesOfKeys(keys.values)) } }),
    };
    const table = this.#table.slice(0, 2 * this.#blocks);
    writeFrame(this.#file, this.#offset, table, meta, keys?.values);
    return meta;
  }

  #reserve(words: number): void {
    if (this.#used + words <= this.#words.length) return;
    const larger = new Int32Array(2 * (this.#used + words));
    larger.set(this.#words.subarray(0, this.#used));
    this.#words = larger;
    this.#floats = new Float32Array(larger.buffer);
  }

  #endBlock(): void {
    const count = this.#inBlock;
    const block = new Int32Array(count + 1 + this.#used);
    for (let i = 0; i <= count; i++) block[i] = count + 1 + (this.#starts[i] ?? 0);
    block.set(this.#words.subarray(0, this.#used), count + 1);
    const bytes = new Uint8Array(block.buffer);
    onDisk("write", this.#file.path, () => this.#file.write(bytes, this.#offset));
    if (2 * this.#blocks === this.#table.length) {
      const larger = new Uint32Array(2 * this.#table.length);
      larger.set(this.#table);
      this.#table = larger;
    }
    this.#table[2 * this.#blocks] = block.length;
    this.#table[2 * this.#blocks + 1] = crc32(bytes);
    this.#digest.update(bytes);
    this.#offset += bytes.length;
    this.#blocks++;
    this.#used = 0;
    this.#inBlock = 0;
  }
}

/** Whether samples have one label, as in caches of before there was anything else. */
function isOneLabel(targets: Targets = oneLabel): boolean {
  return targetWords(targets) === 1;
}

/** What the digest of the samples says of their shape, unless it is one label. */
function digestOf(targets: Targets): string {
  if (isOneLabel(targets)) return "";
  const { labels, hasSampleWeights, hasGroups } = targets;
  return ` labels ${labels} weight ${hasSampleWeights} group ${hasGroups}`;
}

// Writes a binary cache, sample by sample (cache-format.ts has the format). Blocks are buffered and
// written several at a time.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { crc32 } from "node:zlib";
import { InputUnusableError } from "../../errors/errors.ts";
import type { DiskFile } from "../../ports/disk.ts";
import type { PlainRecords } from "../columnar/plain-records.ts";
import { Sample } from "../sample.ts";
import type { SplitKeys } from "../split-keys.ts";
import { oneLabel, type Targets, targetWords } from "../targets.ts";
import { BlockEncoder } from "./block-encoder.ts";
import type { TableEntries } from "./block-table.ts";
import {
  type BlockShape,
  blockSamples,
  bytesOfKeys,
  type CacheMeta,
  headerBytes,
  onDisk,
  sampleHeadWords,
  samplesMax,
} from "./cache-format.ts";
import { writeFrame } from "./cache-frame.ts";
import { StatisticsCollector, type StatisticsState } from "./feature-statistics.ts";
import { lengthAt } from "./folded-records.ts";

/** The progress of building a cache. */
export interface CacheProgress {
  readonly samples: number;
  readonly quarantined: number;
  /** Processed fraction of the input, 0 to 1. */
  readonly fraction: number;
}

/** The shape of every sample in a cache. */
export interface CacheShape extends BlockShape {
  /** Whether each label is a regression target; `[]`: all are classes. @default [] */
  readonly numeric?: readonly boolean[] | undefined;
  /** Rows of each feature's table; left out if unknown. */
  readonly rows?: readonly number[];
}

/**
 * Size of the write buffer, in bytes. One write per block would spend as much time on calls as on
 * data.
 */
const togetherBytes = 0x4_0000;

/** Facts about the written samples, as plain data, from which `CacheMeta` is made. */
export interface SampleTotals {
  readonly samples: number;
  readonly positives: number;
  readonly labelled: readonly number[];
  readonly labelRanges: readonly (readonly [number, number])[];
  /** SHA-256 of the shape, of all blocks and of the keys, hex. */
  readonly digest: string;
  readonly statistics: StatisticsState;
  readonly table: TableEntries;
}

/** A cache being written. */
export class CacheWriter {
  readonly #file: DiskFile | undefined;
  readonly #shape: CacheShape;
  readonly #headWords: number;
  /** Scratch: bag lengths of a record. */
  readonly #lengths: Uint16Array;
  readonly #encoder: BlockEncoder;
  readonly #isIndex: boolean;
  readonly #statistics: StatisticsCollector;
  readonly #digest = createHash("sha256");
  /** Words and checksum of each written block. */
  #table = new Uint32Array(1024);
  #blocks = 0;
  /** Blocks not yet written, in the first `#pendingBytes` bytes. */
  readonly #pending = new Uint8Array(togetherBytes);
  #pendingBytes = 0;
  #offset = headerBytes;
  #samples = 0;
  #positives = 0;
  /** Least and greatest value of each label; empty unless a label is numeric. */
  readonly #labelRanges: [number, number][];
  /** Number of samples that have each label; empty if no label may be missing. */
  readonly #labelled: number[];

  /**
   * Writes to `file`. The caller syncs and closes the file. `isIndex` leaves out the blocks, which
   * readers encode again from the sources. Undefined: nothing is written (`totals`).
   */
  constructor(file: DiskFile | undefined, shape: CacheShape, isIndex = file === undefined) {
    this.#file = file;
    this.#shape = shape;
    this.#headWords = sampleHeadWords(shape);
    this.#lengths = new Uint16Array(shape.features);
    this.#encoder = new BlockEncoder(shape);
    this.#isIndex = isIndex;
    const isNumeric = shape.numeric?.includes(true) === true;
    this.#labelRanges = (isNumeric ? (shape.numeric ?? []) : []).map(() => [Infinity, -Infinity]);
    const { labels: count, hasGaps = false } = shape.targets ?? oneLabel;
    this.#labelled = Array.from({ length: hasGaps ? count : 0 }, () => 0);
    this.#statistics = new StatisticsCollector(shape.wide, shape.rows);
    const wide = shape.wide.includes(true) ? ` wide ${shape.wide}` : "";
    const weighted = shape.weighted.includes(true) ? ` weighted ${shape.weighted}` : "";
    const more = wide + weighted + digestOf(shape.targets ?? oneLabel);
    this.#digest.update(`dense ${shape.dense} features ${shape.features}${more}\n`);
  }

  /** An empty sample of the cache's shape, for the caller to fill and append. */
  newSample(): Sample {
    return new Sample(this.#shape);
  }

  /** Samples appended so far. */
  get samples(): number {
    return this.#samples;
  }

  /** Appends a copy of a sample. @throws StoreFailedError */
  append(sample: Sample): void {
    const block = this.#encoder.append(sample);
    if (block !== undefined) this.#add(block);
    this.#statistics.add(sample);
    this.#samples++;
    if (this.#shape.numeric?.[0] !== true && sample.label === 1) this.#positives++;
    this.#addLabels(sample.labels);
  }

  /** Appends `count` encoded records from record `first` on. @throws StoreFailedError */
  appendRecords(records: PlainRecords, first: number, count: number): void {
    for (let done = 0; done < count; ) {
      const some = Math.min(count - done, this.#encoder.room);
      const block = this.#encoder.appendRecords(records, first + done, some);
      if (block !== undefined) this.#add(block);
      done += some;
    }
    const { words, starts, width } = records;
    if (width !== undefined) this.#statistics.addRecords(words, starts[first] ?? 0, count, width);
    this.#samples += count;
    const floats = new Float32Array(words.buffer, words.byteOffset, words.length);
    for (let i = first; i < first + count; i++) {
      const at = starts[i] ?? 0;
      if (width === undefined) this.#countBags(words, at + this.#headWords);
      if (this.#shape.numeric?.[0] !== true && floats[at] === 1) this.#positives++;
      this.#addLabels(floats, at);
    }
  }

  /** Counts the ids of a record, which begin at word `idsAt`. */
  #countBags(words: Int32Array, idsAt: number): void {
    const lengths = this.#lengths;
    const lengthsAt = idsAt - Math.ceil(lengths.length / 2);
    for (let t = 0; t < lengths.length; t++) lengths[t] = lengthAt(words, lengthsAt, t);
    this.#statistics.add({ lengths, ids: words.subarray(idsAt), highs: words });
  }

  /** Counts the labels of a sample, which begin at `at`. */
  #addLabels(labels: Float32Array, at = 0): void {
    for (let i = 0; i < this.#labelled.length; i++) {
      if (!Number.isNaN(labels[at + i])) this.#labelled[i] = (this.#labelled[i] ?? 0) + 1;
    }
    for (const [i, range] of this.#labelRanges.entries()) {
      const label = labels[at + i] ?? 0;
      if (Number.isNaN(label)) continue;
      range[0] = Math.min(range[0], label);
      range[1] = Math.max(range[1], label);
    }
  }

  /** Ends the current block, so that the next sample begins one. */
  endBlock(): void {
    const rest = this.#encoder.rest();
    if (rest !== undefined) this.#add(rest);
  }

  /** Ends the last block, and returns the facts about all samples, without writing a file. */
  totals(keys?: SplitKeys): SampleTotals {
    this.endBlock();
    this.#flush();
    if (keys !== undefined) this.#digest.update(bytesOfKeys(keys.values));
    return {
      samples: this.#samples,
      positives: this.#positives,
      labelled: this.#labelled,
      labelRanges: this.#labelRanges,
      digest: this.#digest.digest("hex"),
      statistics: this.#statistics.state(),
      table: this.#table.slice(0, 2 * this.#blocks),
    };
  }

  /** Completes the file except for `sync`. @throws StoreFailedError */
  finish(
    about: Pick<
      CacheMeta,
      "quarantine" | "means" | "warnings" | "sources" | "pieces" | "bestAuc" | "bestRmse"
    >,
    keys?: SplitKeys,
  ): CacheMeta {
    this.endBlock();
    this.#flush();
    // The same samples with other keys are split differently: they are other data.
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
      ...(this.#labelled.length > 0 && { labelled: this.#labelled }),
      ...(this.#labelRanges.length > 0 && { labelRanges: this.#labelRanges }),
      digest: this.#digest.digest("hex"),
      statistics: this.#statistics.finish(),
      ...about,
      ...(this.#isIndex && { isIndex: true }),
      ...(keys && { keys: { form: keys.form, crc: crc32(bytesOfKeys(keys.values)) } }),
    };
    const table = this.#table.slice(0, 2 * this.#blocks);
    assert(this.#file !== undefined, "a file to complete");
    writeFrame(this.#file, this.#offset, table, meta, keys?.values);
    return meta;
  }

  #add(block: Int32Array): void {
    const bytes = new Uint8Array(block.buffer, block.byteOffset, block.byteLength);
    if (this.#pendingBytes + bytes.length > togetherBytes) this.#flush();
    if (bytes.length > togetherBytes) this.#write(bytes);
    else {
      this.#pending.set(bytes, this.#pendingBytes);
      this.#pendingBytes += bytes.length;
    }
    if (this.#blocks * blockSamples === samplesMax) {
      const message = `Expected at most ${samplesMax} samples in a cache or an index, got more`;
      throw new InputUnusableError(
        this.#file?.path ?? "an index",
        `${message}: train on fewer files at a time`,
      );
    }
    if (2 * this.#blocks === this.#table.length) {
      const larger = new Uint32Array(2 * this.#table.length);
      larger.set(this.#table);
      this.#table = larger;
    }
    this.#table[2 * this.#blocks] = block.length;
    this.#table[2 * this.#blocks + 1] = crc32(bytes);
    this.#blocks++;
  }

  #flush(): void {
    if (this.#pendingBytes > 0) this.#write(this.#pending.subarray(0, this.#pendingBytes));
    this.#pendingBytes = 0;
  }

  #write(bytes: Uint8Array): void {
    this.#digest.update(bytes);
    const file = this.#file;
    if (this.#isIndex || file === undefined) return;
    onDisk("write", file.path, () => file.write(bytes, this.#offset));
    this.#offset += bytes.length;
  }
}

/**
 * Whether samples have one label, no weight and no group, the shape that the description leaves
 * out.
 */
function isOneLabel(targets: Targets = oneLabel): boolean {
  return targetWords(targets) === 1;
}

/**
 * The targets' part of the digested shape; empty for one label, which keeps older digests valid.
 */
function digestOf(targets: Targets): string {
  if (isOneLabel(targets)) return "";
  const { labels, hasSampleWeights, hasGroups } = targets;
  return ` labels ${labels} weight ${hasSampleWeights} group ${hasGroups}`;
}

// The binary cache's format: samples in small blocks with checksums, and an index at the end.
//
//   header  64 bytes   magic "OSIRISDC" · version u32 · 0 u32 · tail offset f64 ·
//                      table bytes u32 · meta bytes u32 · CRC-32 of the tail u32 ·
//                      CRC-32 of the 36 bytes before u32
//   blocks             one for every 32 samples, from byte 64 on
//   tail               table: words u32 and CRC-32 u32 of each block; then `CacheMeta` as JSON
//   keys               f64 of each sample, if a column splits the data (split-options.ts)
//
//   block   words      first word of each sample, and of the end, counted from the block's start;
//                      ~ of it where the sample is folded
//   sample  words      labels f32 (one, or `targets` says) · its weight f32, if samples have
//                      weights · group f32 (2), if they have groups · dense f32 (dense) ·
//                      bag lengths u16 (even number) · bags
//   folded  words      as a sample until its bag lengths · a bit for each feature, lowest first, in
//                      words: whether its bag is that of the sample before · bags; in place of such
//                      a one, how many words before this one it lies in full, in the same block
//   bag     words      ids i32 · upper halves of the ids i32, if the feature is wide · weights of
//                      the ids f32, if the feature has weights
//
// A sample is folded where that makes it shorter: it then repeats all bags of two words or more
// that are those of the sample before.
//
// All little-endian, all aligned to 4 bytes. A cache file is written under a temporary name,
// synced, and renamed, so a file with the final name is complete.

import assert from "node:assert/strict";
import { crc32 } from "node:zlib";
import { DataCacheDamagedError, StoreFailedError, TrainingError } from "../../errors/errors.ts";
import type { DiskFile } from "../../ports/disk.ts";
import type { KeyForm } from "../split-keys.ts";
import { oneLabel, type Targets, targetWords } from "../targets.ts";
import type { FeatureStatistics } from "./feature-statistics.ts";

/** Part of every cache's key: each version has files of its own. */
export const cacheVersion = 5;
/** Samples of a block: few, because a shuffled reader needs one sample from each block it reads. */
export const blockSamples = 32;
/** Bytes before the first block. */
export const headerBytes = 64;

const magic = "OSIRISDC";
const checkedBytes = 36;

/** A rejected line, and why. `line` counts from 1. */
export interface QuarantinedLine {
  readonly file: string;
  readonly line: number;
  /** Of a file with row groups: which, from 0; `line` is the row in the file. */
  readonly rowGroup?: number | undefined;
  /** Of a file with record batches: which, from 0. */
  readonly recordBatch?: number | undefined;
  readonly reason: string;
}

/** What a person should know of the data, which training does not stop for. */
export interface DataWarning {
  /** Its name, which stays the same: `FEATURE_PREDICTS_LABEL`. */
  readonly code: string;
  /** One sentence: what, where, and what to do about it. */
  readonly message: string;
}

/** A file that a cache was made of, as it was then. */
export interface SourceFile {
  readonly path: string;
  readonly bytes: number;
  readonly modifiedMs: number;
  /** SHA-256 of its text, unpacked, hex; older caches lack it. */
  readonly sha256?: string | undefined;
  /** Samples that were made of it; older caches lack them. */
  readonly samples?: number | undefined;
}

/** A reason why lines were rejected: how often, and the first of these lines. */
export interface RejectedReason {
  /** What was expected, and of which column. */
  readonly kind: string;
  readonly count: number;
  readonly file: string;
  readonly line: number;
  readonly rowGroup?: number | undefined;
  readonly recordBatch?: number | undefined;
  /** What stood there instead; left out where `kind` says all. */
  readonly got?: string | undefined;
  /** The option that would read such lines. */
  readonly advice?: string | undefined;
}

/** How many values of a column share rows of its table: the model cannot tell those apart. */
export interface ColumnValues {
  readonly column: string;
  /** Of hashed text: its feature, of which a cache counts the rows of all samples. */
  readonly feature?: number | undefined;
  /** Rows of the table. */
  readonly rows: number;
  /** Samples that were looked at. */
  readonly samples: number;
  /** Different values in them, and the rows that these fall to. */
  readonly values: number;
  readonly taken: number;
  /** Values that are not alone in their row. */
  readonly shared: number;
  /** Whether the figures are estimated of all samples, by the rows that these use. */
  readonly isEstimated?: boolean | undefined;
}

/** The description of a complete cache. */
export interface CacheMeta {
  readonly samples: number;
  /** Categorical features of a sample. */
  readonly features: number;
  /** Dense features of a sample. */
  readonly dense: number;
  /** Whether the ids of each feature have 64 bits. */
  readonly wide: readonly boolean[];
  /** Whether the ids of each feature have weights. */
  readonly weighted: readonly boolean[];
  /** Longest bag of each feature. */
  readonly idsMax: readonly number[];
  /** What a sample has beside its features; left out: one label. */
  readonly targets?: Targets | undefined;
  /** Samples with label 1; where they have several, the first one. 0 where that is a number. */
  readonly positives: number;
  /** Samples that have each label, where one may be missing; else left out: all have all. */
  readonly labelled?: readonly number[] | undefined;
  /** Least and greatest value of each label, where one is a number; else left out. */
  readonly labelRanges?: readonly (readonly [number, number])[] | undefined;
  /**
   * `count` is exact; the first `quarantineMax` lines are `kept`; `reasons`: the most frequent.
   */
  readonly quarantine: {
    readonly count: number;
    readonly kept: readonly QuarantinedLine[];
    readonly reasons: readonly RejectedReason[];
  };
  /**
   * The mean of each dense feature whose missing values, NaN in the samples, become the mean of the
   * training data; left out where there is none.
   */
  readonly means?: Means | undefined;
  /** SHA-256 of all samples, hex: equal digests are equal data. */
  readonly digest: string;
  /**
   * Generated data only: AUC of the true logits against the drawn labels, the best possible AUC.
   */
  readonly bestAuc?: number;
  /** The same where the first label is a number: RMSE of the true logits. */
  readonly bestRmse?: number;
  /** What was noticed while the cache was written. */
  readonly warnings?: readonly DataWarning[];
  /** Of columns whose values may share rows: what the first samples show. */
  readonly values?: readonly ColumnValues[];
  /** What was counted of each feature; left out: unknown, in a cache of an older release. */
  readonly statistics?: readonly FeatureStatistics[];
  /** The keys behind the tail, if a column splits the data. */
  readonly keys?: { readonly form: KeyForm; readonly crc: number } | undefined;
  /** Its source, for people: the name of the cache decides what it is of. */
  readonly sources?: readonly SourceFile[];
  /** Where the samples lie in files that have row groups, in their order. */
  readonly pieces?: readonly Piece[] | undefined;
  /** Whether the file has no blocks: readers make them of the sources again, piece by piece. */
  readonly isIndex?: true;
}

/** The samples of a row group, or of a record batch. */
export interface Piece {
  /** Place of the file among the sources. */
  readonly file: number;
  readonly rowGroup: number;
  readonly samples: number;
}

/** By index of the dense feature. */
export type Means = Readonly<Record<number, number>>;

/** Words and checksum of every block: (blocks, 2). */
export type BlockTable = Uint32Array;

/** What decides the words of a sample. */
export interface BlockShape {
  readonly dense: number;
  readonly features: number;
  /** Whether the ids of each feature have 64 bits. */
  readonly wide: readonly boolean[];
  /** Whether the ids of each feature have weights; `[]`: no feature has them. */
  readonly weighted: readonly boolean[];
  /** What a sample has beside its features. @default one label */
  readonly targets?: Targets | undefined;
}

/** Words of a sample before its bags. */
export function sampleHeadWords(shape: {
  readonly dense: number;
  readonly features: number;
  readonly targets?: Targets | undefined;
}): number {
  return targetWords(shape.targets ?? oneLabel) + shape.dense + Math.ceil(shape.features / 2);
}

/** Writes the tail at `offset`, with the keys behind it, then the header. */
export function writeFrame(
  file: DiskFile,
  offset: number,
  table: BlockTable,
  meta: CacheMeta,
  keys?: Float64Array,
): void {
  const tableBytes = new Uint8Array(table.buffer, table.byteOffset, table.byteLength);
  const metaBytes = new TextEncoder().encode(JSON.stringify(meta));
  const header = new Uint8Array(headerBytes);
  const view = new DataView(header.buffer);
  new TextEncoder().encodeInto(magic, header);
  view.setUint32(8, cacheVersion, true);
  view.setFloat64(16, offset, true);
  view.setUint32(24, tableBytes.length, true);
  view.setUint32(28, metaBytes.length, true);
  view.setUint32(32, crc32(metaBytes, crc32(tableBytes)), true);
  view.setUint32(checkedBytes, crc32(header.subarray(0, checkedBytes)), true);
  onDisk("write", file.path, () => {
    file.write(tableBytes, offset);
    file.write(metaBytes, offset + tableBytes.length);
    if (keys) file.write(bytesOfKeys(keys), offset + tableBytes.length + metaBytes.length);
    file.write(header, 0);
  });
}

/** The keys as they lie on the disk. */
export function bytesOfKeys({ buffer, byteOffset, byteLength }: Float64Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

/** The checked tail of a cache, and where it ends. @throws DataCacheDamagedError */
export function readFrame(file: DiskFile): {
  table: BlockTable;
  meta: CacheMeta;
  dataEnd: number;
  end: number;
} {
  const header = new Uint8Array(headerBytes);
  const read = onDisk("read", file.path, () => file.read(header, 0));
  const view = new DataView(header.buffer);
  if (read < headerBytes || new TextDecoder().decode(header.subarray(0, 8)) !== magic) {
    throw new DataCacheDamagedError(file.path, "it does not start as one");
  }
  if (view.getUint32(checkedBytes, true) !== crc32(header.subarray(0, checkedBytes))) {
    throw new DataCacheDamagedError(file.path, "the checksum of its header differs");
  }
  const version = view.getUint32(8, true);
  if (version !== cacheVersion)
    throw new DataCacheDamagedError(file.path, `it has the version ${version}`);
  const dataEnd = view.getFloat64(16, true);
  const tail = new Uint8Array(view.getUint32(24, true) + view.getUint32(28, true));
  const tailRead = onDisk("read", file.path, () => file.read(tail, dataEnd));
  if (tailRead < tail.length) throw new DataCacheDamagedError(file.path, "its end is missing");
  if (view.getUint32(32, true) !== crc32(tail)) {
    throw new DataCacheDamagedError(file.path, "the checksum of its index differs");
  }
  const tableBytes = view.getUint32(24, true);
  const table = new Uint32Array(tail.buffer, 0, tableBytes / 4);
  const meta: CacheMeta = JSON.parse(new TextDecoder().decode(tail.subarray(tableBytes)));
  assert.equal(
    table.length,
    2 * Math.ceil(meta.samples / blockSamples),
    "a block for every sample",
  );
  return { table, meta, dataEnd, end: dataEnd + tail.length };
}

/** Runs `work`. An error of the disk becomes a StoreFailedError. */
export function onDisk<Result>(action: string, path: string, work: () => Result): Result {
  try {
    return work();
  } catch (cause) {
    if (cause instanceof TrainingError) throw cause;
    throw new StoreFailedError(action, path, { cause });
  }
}

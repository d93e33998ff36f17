// The binary cache's format: samples in small blocks with checksums, and an index at the end.
//
//   header  64 bytes   magic "OSIRISDC" · version u32 · 0 u32 · tail offset f64 ·
//                      table bytes u32 · meta bytes u32 · CRC-32 of the tail u32 ·
//                      CRC-32 of the 36 bytes before u32
//   blocks             one for every 32 samples, from byte 64 on
//   tail               table: words u32 and CRC-32 u32 of each block; then `CacheMeta` as JSON.
//                      An index of files has no block: its table is the starts of the splits, f64
//   keys               f64 of each sample, if a column splits the data (../split-keys.ts)
//
//   block   words      first word of each sample, and of the end, counted from the block's start;
//                      bitwise NOT (~) of it if the sample is folded
//   sample  words      labels f32 (one, or `targets` says) · its weight f32, if samples have
//                      weights · group f32 (2), if they have groups · dense f32 (dense) ·
//                      bag lengths u16 (even number) · bags
//   folded  words      as a sample until its bag lengths · a bit for each feature, lowest first, in
//                      words: whether its bag is that of the sample before · bags; a repeated bag
//                      is one word: the distance back, in words, to the full bag in the same block
//   bag     words      ids i32 · upper halves of the ids i32, if the feature is wide · weights of
//                      the ids f32, if the feature has weights
//
// A sample is folded if that makes it shorter. Then every bag of two or more words that equals the
// bag of the sample before is stored as such a reference.
//
// All values are little-endian and aligned to 4 bytes. A cache file is written under a temporary
// name, synced and renamed, so that a file with the final name is complete.

import { StoreFailedError, TrainingError } from "../../errors/errors.ts";
import { oneLabel, type Targets, targetWords } from "../targets.ts";
import type { FeatureStatistics } from "./feature-statistics.ts";

/** Part of every cache's key, so that versions never read each other's files. */
export const cacheVersion = 5;
/**
 * Version of the encoding of samples whose index has an index for each file: blocks begin with each
 * piece, and the digest is that of the files' digests.
 */
export const filesVersion = 6;
/** Version of the digest of an early index: that of the footers (../file-index/early-index.ts). */
export const earlyVersion = 7;
/**
 * Samples per block: few, because a shuffled reader uses one sample of each block that it reads.
 */
export const blockSamples = 32;
/** Most samples of a cache: the size of the table of their blocks has 32 bits. */
export const samplesMax = 2 ** 34 - blockSamples;
/** Bytes before the first block. */
export const headerBytes = 64;

/** A rejected line, and why. `line` counts from 1. */
export interface QuarantinedLine {
  readonly file: string;
  readonly line: number;
  /** Row group, from 0, in a file that has row groups; `line` is then the row in the file. */
  readonly rowGroup?: number | undefined;
  /** Record batch, from 0, in a file that has record batches. */
  readonly recordBatch?: number | undefined;
  readonly reason: string;
}

/** A finding about the data that the user should see, but that does not stop training. */
export interface DataWarning {
  /** Stable code, such as `FEATURE_PREDICTS_LABEL`. */
  readonly code: string;
  /** One sentence: the finding, where it is, and what to do about it. */
  readonly message: string;
}

/** A source file of a cache, as it was when the cache was built. */
export interface SourceFile {
  readonly path: string;
  readonly bytes: number;
  readonly modifiedMs: number;
  /** SHA-256 of its decompressed text, hex; missing in an early index. */
  readonly sha256?: string | undefined;
  /** Number of samples read from it; missing in an early index. */
  readonly samples?: number | undefined;
}

/** A reason why lines were rejected: how often, and the first such line. */
export interface RejectedReason {
  /** The expected value, and the column. */
  readonly kind: string;
  readonly count: number;
  readonly file: string;
  readonly line: number;
  readonly rowGroup?: number | undefined;
  readonly recordBatch?: number | undefined;
  /** The value found instead; left out if `kind` says everything. */
  readonly got?: string | undefined;
  /** The option that would accept such lines. */
  readonly advice?: string | undefined;
}

/**
 * How many values of a column collide: values that share a row of the table are the same to the
 * model.
 */
export interface ColumnValues {
  readonly column: string;
  /** Feature of a column of hashed text. The cache counts its rows over all samples. */
  readonly feature?: number | undefined;
  /** Rows of the feature's embedding table. */
  readonly rows: number;
  /** Number of samples examined. */
  readonly samples: number;
  /** Number of distinct values in them, and of rows that these values map to (`taken`). */
  readonly values: number;
  readonly taken: number;
  /** Number of values that share their row with another value. */
  readonly shared: number;
  /** Whether the figures are estimates for all samples, derived from the number of rows in use. */
  readonly isEstimated?: boolean | undefined;
}

/** Type of a column's keys. Dates are milliseconds since 1970, UTC. */
export type KeyForm = "number" | "date" | "hash" | "text";

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
  /** Labels, weight and group of a sample; left out for one label. */
  readonly targets?: Targets | undefined;
  /** Samples whose first label is 1; 0 if that label is numeric. */
  readonly positives: number;
  /** Number of samples that have each label; left out if no label may be missing. */
  readonly labelled?: readonly number[] | undefined;
  /** Least and greatest value of each label; left out unless a label is numeric. */
  readonly labelRanges?: readonly (readonly [number, number])[] | undefined;
  /**
   * Rejected lines: their exact `count`, the first `quarantineMax` of them (`kept`), and the most
   * frequent `reasons`.
   */
  readonly quarantine: {
    readonly count: number;
    readonly kept: readonly QuarantinedLine[];
    readonly reasons: readonly RejectedReason[];
  };
  /**
   * Mean of each dense feature whose missing values (NaN in the samples) are filled with the mean
   * of the training data; left out if no feature is.
   */
  readonly means?: Means | undefined;
  /** SHA-256 of all samples, hex: equal digests are equal data. */
  readonly digest: string;
  /**
   * Generated data only: AUC of the true logits against the drawn labels, the best possible AUC.
   */
  readonly bestAuc?: number;
  /**
   * Generated data with a numeric first label only: RMSE of the true logits, the best possible
   * RMSE.
   */
  readonly bestRmse?: number;
  /** Warnings about the data, found while the cache was written. */
  readonly warnings?: readonly DataWarning[];
  /** Collisions in columns whose values may share rows, counted in the first samples. */
  readonly values?: readonly ColumnValues[];
  /** Statistics of each feature; missing in an early index. */
  readonly statistics?: readonly FeatureStatistics[];
  /** Form and checksum of the keys after the tail, if a column splits the data. */
  readonly keys?: { readonly form: KeyForm; readonly crc: number } | undefined;
  /** Source files, for display only: the key in the file's name identifies the data. */
  readonly sources?: readonly SourceFile[];
  /** Row groups or record batches of the samples, in sample order, if the sources have them. */
  readonly pieces?: readonly Piece[] | undefined;
  /** Whether the file has no blocks: readers encode them again from the sources, piece by piece. */
  readonly isIndex?: true;
  /** The indexes of the files, if the data have one for each file: it has their block tables. */
  readonly files?: IndexedFiles | undefined;
  /** The digest of the early index with which a run began, before this index was made. */
  readonly earlyDigest?: string | undefined;
  /** Version of the encoding that `digest` is of. @default `cacheVersion` */
  readonly version?: number | undefined;
}

export interface IndexedFiles {
  /** File name of each file's own index (file-index-format.ts). */
  readonly names: readonly string[];
  readonly samples: readonly number[];
  readonly blocks: readonly number[];
  readonly words: readonly number[];
  /** Size in memory of the largest split, in bytes. */
  readonly splitBytesMax: number;
}

/** The samples of a row group, or of a record batch. */
export interface Piece {
  /** Index of the file in `sources`. */
  readonly file: number;
  readonly rowGroup: number;
  readonly samples: number;
}

/** Means by index of the dense feature. */
export type Means = Readonly<Record<number, number>>;

/** The properties that determine the layout of a sample's record. */
export interface BlockShape {
  readonly dense: number;
  readonly features: number;
  /** Whether the ids of each feature have 64 bits. */
  readonly wide: readonly boolean[];
  /** Whether the ids of each feature have weights; `[]` if no feature has them. */
  readonly weighted: readonly boolean[];
  /** Labels, weight and group of a sample. @default one label */
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

/** The bytes of the keys, as stored on disk. */
export function bytesOfKeys({ buffer, byteOffset, byteLength }: Float64Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

/** Runs `work`, and wraps a disk error in a StoreFailedError. */
export function onDisk<Result>(action: string, path: string, work: () => Result): Result {
  try {
    return work();
  } catch (cause) {
    if (cause instanceof TrainingError) throw cause;
    throw new StoreFailedError(action, path, { cause });
  }
}

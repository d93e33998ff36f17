// A dataset: samples that can be read by index, in any order, any number of times. The samples come
// from a binary cache, or from an index whose blocks are encoded again from the source.
//
// B = samples of a batch, L = labels of a sample, T = categorical features, N = ids.

import { groupWords, type Targets } from "./targets.ts";

/** Memory for one batch. Its creator owns it; `read` fills it from the start. */
export interface BatchMemory {
  /** (B, dense) */
  readonly dense: Float32Array;
  /** (B, L): 0 or 1, or any number if the label is numeric. */
  readonly labels: Float32Array;
  /** (T, B): number of ids of each bag, feature-major. */
  readonly lengths: Int32Array;
  /** (N): ids, feature-major, then sample, then order in the bag. */
  readonly ids: Int32Array;
  /**
   * (N): upper halves of the ids of wide features; `ids` has the lower halves. Values of other
   * features are undefined. Left out if no feature is wide.
   */
  readonly highs?: Int32Array | undefined;
  /** (N): weight of each id in its bag, 1 in features without weights; left out: all 1. */
  readonly weights?: Float32Array | undefined;
  /** (B): the weight of each sample's loss; left out: all 1. */
  readonly sampleWeights?: Float32Array | undefined;
  /** (2, B): the group of each sample (targets.ts); left out if it is not needed. */
  readonly groups?: Float32Array | undefined;
  /**
   * (G, B): index of each sample's list among the distinct lists of a group of features (ikjt.ts);
   * left out if no lists are deduplicated. `read` does not fill it.
   */
  readonly inverse?: Int32Array | undefined;
}

/** Numbers of samples, from 0: whole numbers below 2^53. */
export type SampleNumbers = Float64Array;

/** Samples first .. end-1. */
export interface SampleRange {
  readonly first: number;
  readonly end: number;
}

/** Bytes that a dataset has read since it was opened. */
export interface BytesRead {
  /** From its file. */
  readonly file: number;
  /** Of the requested samples. */
  readonly samples: number;
}

export interface Dataset {
  readonly samples: number;
  /**
   * First sample of each piece (pieces.ts), then the end; undefined if the sources have no pieces.
   */
  readonly pieces?: SampleNumbers | undefined;
  /** Whether `read` accepts only samples in held ranges. */
  readonly isStreamed?: boolean | undefined;
  /** Dense features of a sample. */
  readonly dense: number;
  /** Categorical features of a sample, in the order of the model's tables. */
  readonly features: number;
  /** Whether the ids of each feature have 64 bits. */
  readonly wide: readonly boolean[];
  /** Whether the ids of each feature have weights. */
  readonly weighted: readonly boolean[];
  /** Longest bag of each feature. */
  readonly idsMax: readonly number[];
  /** Labels, weight and group of a sample. */
  readonly targets: Targets;
  /**
   * Copies the samples `indices`, in that order, into `batch`. Returns the number of ids; where
   * `batch` has room for fewer, its ids are incomplete. It must have room for everything else of B
   * samples, with `highs` if any feature is wide, and `weights` if any feature is weighted. Samples
   * without weights get the weight 1. Lengths are at t*B + b with B = indices.length.
   */
  read(indices: SampleNumbers, batch: BatchMemory): number;
  /**
   * Loads ranges of samples with large reads, and holds them until the next call. Resolves when the
   * ranges of `now` are in memory; those of `next` are prefetched meanwhile. Does nothing if all
   * samples are in memory.
   */
  hold(now: readonly SampleRange[], next: readonly SampleRange[]): Promise<void>;
  readonly bytesRead: BytesRead;
  close(): void;
}

/**
 * Allocates memory for `samples` samples of a dataset, with all of its optional parts, and room for
 * `ids` ids: `readSamples` makes more room where samples have more.
 */
export function memoryFor(dataset: Dataset, samples: number, ids = samples): BatchMemory {
  const { targets, wide, weighted } = dataset;
  return {
    dense: new Float32Array(samples * dataset.dense),
    labels: new Float32Array(samples * targets.labels),
    lengths: new Int32Array(samples * dataset.features),
    ids: new Int32Array(ids),
    highs: wide.includes(true) ? new Int32Array(ids) : undefined,
    weights: weighted.includes(true) ? new Float32Array(ids) : undefined,
    sampleWeights: targets.hasSampleWeights ? new Float32Array(samples) : undefined,
    groups: targets.hasGroups ? new Float32Array(groupWords * samples) : undefined,
  };
}

/**
 * Reads the samples `indices` into `batch`. If `batch` lacks room for ids, reads them into a larger
 * batch: room for the longest bag in every sample could take a thousand times the memory. Returns
 * the batch and its number of ids.
 */
export function readSamples(
  dataset: Dataset,
  indices: SampleNumbers,
  batch: BatchMemory,
): BatchMemory & { readonly idCount: number } {
  const idCount = dataset.read(indices, batch);
  if (idCount <= batch.ids.length) return { ...batch, idCount };
  const { ids, highs, weights } = memoryFor(dataset, 0, Math.ceil(1.25 * idCount));
  const larger = { ...batch, ids, highs, weights };
  return { ...larger, idCount: dataset.read(indices, larger) };
}

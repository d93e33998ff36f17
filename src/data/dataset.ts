// A dataset: samples that can be read by index, in any order, any number of times. The samples
// always come from the binary cache, whether its source was text or a generator.
//
// B = samples of a batch, L = labels of a sample, T = categorical features, N = ids.

import { groupWords, type Targets } from "./targets.ts";

/** Memory for one batch. Its creator owns it; `read` fills it from the start. */
export interface BatchMemory {
  /** (B, dense) */
  readonly dense: Float32Array;
  /** (B, L): 0 or 1. */
  readonly labels: Float32Array;
  /** (T, B): number of ids of each bag, feature-major. */
  readonly lengths: Int32Array;
  /** (N): ids, feature-major, then sample, then order in the bag. */
  readonly ids: Int32Array;
  /**
   * (N): upper halves of the ids of wide features; `ids` has the lower halves. Values of other
   * features are undefined. Left out where no feature is wide.
   */
  readonly highs?: Int32Array | undefined;
  /** (N): weight of each id in its bag, 1 in features without weights; left out: all 1. */
  readonly weights?: Float32Array | undefined;
  /** (B): the weight of each sample's loss; left out: all 1. */
  readonly sampleWeights?: Float32Array | undefined;
  /** (2, B): the group of each sample (targets.ts); left out: nobody asks. */
  readonly groups?: Float32Array | undefined;
  /**
   * (G, B): which distinct list of a group of features each sample has (ikjt.ts); left out: no
   * lists are deduplicated. `read` does not fill it.
   */
  readonly inverse?: Int32Array | undefined;
}

/** Samples first .. end-1. */
export interface SampleRange {
  readonly first: number;
  readonly end: number;
}

/** What a dataset has read since it was opened, in bytes. */
export interface BytesRead {
  /** From its file. */
  readonly file: number;
  /** Of the samples that were asked for. */
  readonly samples: number;
}

export interface Dataset {
  readonly samples: number;
  /**
   * The first sample of each piece in which the samples lie in their files, and the end; undefined:
   * they lie in none.
   */
  readonly pieces?: Uint32Array | undefined;
  /** Whether `read` knows those samples alone that are held. */
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
  /** What a sample has beside its features. */
  readonly targets: Targets;
  /**
   * Copies the samples `indices`, in that order, into `batch`. Returns the number of ids. `batch`
   * must have room for B samples of the longest bags, with upper halves where a feature is wide,
   * and with weights where one has them. Weights of samples that have none are 1. Lengths are at
   * t*B + b with B = indices.length.
   */
  read(indices: Uint32Array, batch: BatchMemory): number;
  /**
   * Reads whole ranges of samples in large reads, and holds them until the next call. Resolves when
   * those of `now` are there; those of `next` are read meanwhile. Does nothing where all samples
   * are in memory.
   */
  hold(now: readonly SampleRange[], next: readonly SampleRange[]): Promise<void>;
  readonly bytesRead: BytesRead;
  close(): void;
}

/** Memory for any `samples` samples of a dataset, with all that they have. */
export function memoryFor(dataset: Dataset, samples: number): BatchMemory {
  const { targets, wide, weighted } = dataset;
  const ids = samples * dataset.idsMax.reduce((sum, most) => sum + most, 0);
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

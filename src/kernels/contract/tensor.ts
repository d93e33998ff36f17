// Data types of kernels: tensor handles, parts of pooled sums, packed bytes, and the column
// quantum.

import type { Subtree } from "./slices.ts";

/**
 * A handle of a row-major float32 array. Only src/kernels and the edge of the exchange may access
 * the memory; all other folders pass the handle on, so that a device with its own memory can be
 * added.
 */
export interface Tensor {
  readonly shape: readonly number[];
}

/** Pooled sums of one tile, which the device with the samples folds. */
export interface PooledPart {
  /** (B, ·) */
  readonly from: Tensor;
  /** First column of the sums in `from`. */
  readonly first: number;
  /** The row blocks that were summed. */
  readonly tree: Subtree;
}

/** The position of packed columns: a multiple of 4 bytes in a buffer. */
export interface PackedAt {
  readonly buffer: ArrayBufferLike;
  readonly byteOffset: number;
}

/** Columns of a quantum, the unit of column-wise sharding and of every row-wise mean. */
export const quantumColumns = 32;

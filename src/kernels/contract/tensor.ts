// The data of kernels: the handle of a tensor, parts of tensors, packed bytes, and the quantum of
// columns.

import type { Subtree } from "./slices.ts";

/**
 * A handle of a float32 array, row-major. Only src/kernels and the edge of the exchange may look
 * inside; all other rooms pass the handle on, so that a device with its own memory can be added.
 */
export interface Tensor {
  readonly shape: readonly number[];
}

/** Pooled sums of one tile, on their way to the device with the samples. */
export interface PooledPart {
  /** (B, ·) */
  readonly from: Tensor;
  /** First column of the sums in `from`. */
  readonly first: number;
  /** The row blocks that were summed. */
  readonly tree: Subtree;
}

/** Where packed columns begin: a multiple of 4 bytes. */
export interface PackedAt {
  readonly buffer: ArrayBufferLike;
  readonly byteOffset: number;
}

/** Columns of one quantum: the unit of column-wise sharding and of every row-wise mean. */
export const quantumColumns = 32;

// Slices: the fixed parts of a batch, which define the bracketing of every sum over samples.
//
// A batch of B samples is cut into S slices (S is a power of two and an option of the job). Sums
// over the batch are in sample order inside a slice, then a binary tree over the slices:
//
//        ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))
//
// The gradient of a row, a sum over its lookups, has the same bracketing. If several features look
// the table up, a slice is summed feature by feature, in the order of the list, and sample by
// sample for each feature.
//
// A device with slices 0..2 can finish only the aligned subtrees {0,1} and {2}; the receiver of the
// subtrees adds the rest of the tree. So any placement gives the same bits (law 4).

/** The slices that one call covers. `bounds` are offsets of samples in the tensors of the call. */
export interface Slices {
  /** Index of the first slice in the batch. */
  readonly first: number;
  /** Slice i of this call holds the samples bounds[i] .. bounds[i+1]-1. Length: slices + 1. */
  readonly bounds: Int32Array;
  /** Most slices of a finished subtree, a power of two. @default no limit */
  readonly most?: number | undefined;
}

/** No batch has as many slices. */
export const slicesMax = 2 ** 31;

/** An aligned run of slices with a finished sum: `count` is a power of two dividing `first`. */
export interface Subtree {
  readonly first: number;
  readonly count: number;
}

/** First sample of slice `slice` in a batch of `samples`; `samples` if `slice` is `slices`. */
export function sliceStart(slice: number, slices: number, samples: number): number {
  return Math.floor((slice * samples) / slices);
}

/** First sample of each slice in a batch of `samples`, then `samples`. */
export function sliceBoundsOf(slices: number, samples: number): number[] {
  return Array.from({ length: slices + 1 }, (_, slice) => sliceStart(slice, slices, samples));
}

/** The slices first .. first+count-1 of a batch, with bounds relative to their first sample. */
export function slicesOf(first: number, count: number, slices: number, samples: number): Slices {
  const bounds = new Int32Array(count + 1);
  const base = sliceStart(first, slices, samples);
  for (let i = 0; i <= count; i++) bounds[i] = sliceStart(first + i, slices, samples) - base;
  return { first, bounds };
}

/** The finished subtrees of the slices of a call, left to right. */
export function finishedSubtrees({ first, bounds, most }: Slices): Subtree[] {
  return subtreesOf(first, bounds.length - 1, most);
}

/**
 * The largest aligned subtrees, of at most `most` slices, that cover first .. first+count-1, left
 * to right.
 */
export function subtreesOf(first: number, count: number, most = slicesMax): Subtree[] {
  const trees: Subtree[] = [];
  let at = first;
  const end = first + count;
  while (at < end) {
    let size = 1;
    while (size * 2 <= most && at % (size * 2) === 0 && at + size * 2 <= end) size *= 2;
    trees.push({ first: at, count: size });
    at += size;
  }
  return trees;
}

// Slices: the fixed parts of a batch, and the one bracketing of every sum over samples.
//
// A batch of B samples is cut into S slices (S is a power of two and a number of the job). Sums
// over the batch are in sample order inside a slice, then a binary tree over the slices:
//
//        ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))
//
// A sum over the lookups in a row, its gradient, has the same bracketing. Inside a slice it goes
// lookup by lookup in the order of the list, where several features look the table up, and for each
// sample by sample.
//
// A device with slices 0..2 can finish only the aligned subtrees {0,1} and {2}; the rest of the
// tree is added where the subtrees meet. So any placement gives the same bits (law 4).

/** The slices that one call covers. `bounds` are offsets of samples in that call's tensors. */
export interface Slices {
  /** Index of the first slice in the batch. */
  readonly first: number;
  /** Slice i of this call holds the samples bounds[i] .. bounds[i+1]-1. Length: slices + 1. */
  readonly bounds: Int32Array;
}

/** An aligned run of slices with a finished sum: `count` is a power of two dividing `first`. */
export interface Subtree {
  readonly first: number;
  readonly count: number;
}

/** First sample of slice `slice` in a batch of `samples`; `slice` may be `slices` (the end). */
export function sliceStart(slice: number, slices: number, samples: number): number {
  return Math.floor((slice * samples) / slices);
}

/** First sample of each slice in a batch of `samples`, and the end. */
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

/** The largest aligned subtrees that cover first .. first+count-1, left to right. */
export function subtreesOf(first: number, count: number): Subtree[] {
  const trees: Subtree[] = [];
  let at = first;
  const end = first + count;
  while (at < end) {
    let size = 1;
    while (at % (size * 2) === 0 && at + size * 2 <= end) size *= 2;
    trees.push({ first: at, count: size });
    at += size;
  }
  return trees;
}

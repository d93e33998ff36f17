// Ranges of the lookups of a slab, and of sums of several shards: a kernel takes all shards of a
// device in one call.

import type { Rows } from "../../kernels/contract/kernels.ts";

/** A range of consecutive lookups. */
export interface Run {
  readonly first: number;
  readonly count: number;
}

/**
 * Returns the rows of ranges of lookups. Equal ranges give the same array, as kernels cache data
 * by array.
 */
export function runsOf(lookedUp: readonly Rows[]): (of: Run) => readonly Rows[] {
  const known = new Map<number, readonly Rows[]>();
  return ({ first, count }) => {
    if (count === lookedUp.length) return lookedUp;
    const place = first * lookedUp.length + count;
    const rows = known.get(place) ?? lookedUp.slice(first, first + count);
    known.set(place, rows);
    return rows;
  };
}

/** The first column of each lookup. */
export function firstColumnsOf(lookedUp: readonly Rows[]): number[] {
  let next = 0;
  return lookedUp.map(({ dim }) => {
    const first = next;
    next += dim;
    return first;
  });
}

/** Sums of several shards, one after the other. */
export function joined(sums: readonly Float32Array[]): Float32Array {
  const all = new Float32Array(sums.reduce((length, own) => length + own.length, 0));
  let end = 0;
  for (const own of sums) {
    all.set(own, end);
    end += own.length;
  }
  return all;
}

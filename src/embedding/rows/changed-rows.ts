// Which rows of a shard a checkpoint has to take, and what all of them add to the digest: kept up
// by what changed alone. A step only says "changed", as it always did; the rest is done at cuts.
//
// In memory the mark of a row is its `touched`:
//
//   0  never updated · 1  changed since the last cut · 2  changed since the baseline, and not since
//   the last cut · 3  as the baseline has it
//
// Below memory it is in one of two sets, or in none: a row enters the first as it goes down.
//
// Invariants
//   S1. `sums` are those of all rows as they were at the last cut, but for the rows of `sinceCut`
//       below memory, whose former hashes are taken out as they enter it.
//   S2. A hash that is kept is that of the row at the last cut. Where no difference will ever be
//       taken, none is kept.

import type { Kernels, Rows, StateShape } from "../../kernels/contract/kernels.ts";
import type { Shard } from "../tables/shards.ts";
import { addSum, leavesOfSums, type RowHashing, rowHashing, subtractSum } from "./digest.ts";
import { recordsOf } from "./records-in-memory.ts";
import type { RowRecords, TakenRows } from "./row-records.ts";
import { createRowSet, type RowSet } from "./row-set.ts";

/** The marks of rows in memory, as drawn above. */
export const marks = { changed: 1, different: 2, saved: 3 } as const;

/** The highest mark of the rows that a cut takes. */
const lastMark: Readonly<Record<TakenRows, number>> = {
  sinceCut: marks.changed,
  sinceBaseline: marks.different,
  whole: marks.saved,
};

export interface SavedRows {
  readonly hashing: RowHashing;
  /** (words of a hash): over all rows. S1 */
  readonly sums: Uint32Array;
  /** (places, words): of each place of the shard in device memory; empty: not kept. S2 */
  readonly hashes: Uint32Array;
  /** Rows below memory, counted from the shard's first: changed since the last cut. */
  sinceCut: RowSet;
  /** Others, changed since the baseline. */
  sinceBaseline: RowSet;
}

/** Nothing was saved yet. `places`: of which hashes are kept; 0 where only whole cuts are made. */
export function createSavedRows(
  shard: Shard,
  options: { readonly dim: number; readonly state: StateShape; readonly places: number },
): SavedRows {
  const hashing = rowHashing(shard, options.dim, options.state);
  return {
    hashing,
    sums: new Uint32Array(hashing.words),
    hashes: new Uint32Array(options.places * hashing.words),
    sinceCut: createRowSet(),
    sinceBaseline: createRowSet(),
  };
}

export function savedLeaves({ sums }: SavedRows): string[] {
  return leavesOfSums(sums);
}

/** Takes the rows of a shard that is all in memory, ascending; those count as saved. */
export function* cutInMemory(
  kernels: Kernels,
  rows: Rows,
  saved: SavedRows,
  taken: TakenRows,
): Generator<RowRecords> {
  const { hashing, sums, hashes } = saved;
  const { touched, firstRow } = rows;
  const { words } = hashing;
  const isWhole = taken === "whole";
  if (isWhole) sums.fill(0);
  for (const chunk of recordsOf(kernels, rows, lastMark[taken])) {
    for (let i = 0; i < chunk.rows.length; i++) {
      const at = (chunk.rows[i] ?? 0) - firstRow;
      const isChanged = touched[at] === marks.changed;
      touched[at] = isWhole ? marks.saved : marks.different;
      if (!isWhole && !isChanged) continue;
      const hash = hashing.of(chunk, i);
      if (!isWhole) subtractSum(sums, hashes, at);
      addSum(sums, hash);
      if (hashes.length > 0) hashes.set(hash, at * words);
    }
    yield chunk;
  }
}

/** Rows in memory were restored: what they add to the digest is found out, so that it is known. */
export function resumeInMemory(kernels: Kernels, rows: Rows, saved: SavedRows): void {
  const { hashing, sums, hashes } = saved;
  sums.fill(0);
  for (const chunk of recordsOf(kernels, rows)) {
    for (let i = 0; i < chunk.rows.length; i++) {
      const hash = hashing.of(chunk, i);
      addSum(sums, hash);
      hashes.set(hash, ((chunk.rows[i] ?? 0) - rows.firstRow) * hashing.words);
    }
  }
}

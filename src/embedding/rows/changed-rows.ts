// Tracks which rows of a shard a checkpoint has to save, and the sums of all row hashes for the
// digest, at a cost in proportion to the changed rows. A step only marks rows as changed; cuts
// compute the hashes.
//
// In memory the mark of a row is its `touched`:
//
//   0  never updated · 1  changed since the last cut · 2  changed since the baseline, and not since
//   the last cut · 3  equal to the baseline
//
// A row in the backing store is in `sinceCut`, in `sinceBaseline` or in neither: it enters
// `sinceCut` when it is written there.
//
// Invariants
//   S1. `sums` is over all rows as of the last cut, except for the rows of `sinceCut` in the
//       backing store: a row's former hash is subtracted when the row enters that set.
//   S2. `hashes` has each row's hash at the last cut. It is empty where all cuts are whole.

import type { Kernels, Rows, StateShape } from "../../kernels/contract/kernels.ts";
import type { Shard } from "../tables/shards.ts";
import { addSum, leavesOfSums, type RowHashing, rowHashing, subtractSum } from "./digest.ts";
import { recordsOf } from "./records-in-memory.ts";
import type { RowRecords, TakenRows } from "./row-records.ts";
import { createRowSet, type RowSet } from "./row-set.ts";

/** The marks of rows in memory: see the header. */
export const marks = { changed: 1, different: 2, saved: 3 } as const;

/** The highest mark of the rows that a cut takes. */
const lastMark: Readonly<Record<TakenRows, number>> = {
  sinceCut: marks.changed,
  sinceBaseline: marks.different,
  whole: marks.saved,
};

export interface SavedRows {
  readonly hashing: RowHashing;
  /** (words of a hash): sums of row hashes over all rows. S1 */
  readonly sums: Uint32Array;
  /** (slots, words): the hash for each slot of the shard in device memory, or empty. S2 */
  hashes: Uint32Array;
  /**
   * Rows in the backing store that changed since the last cut, relative to the shard's first row.
   */
  sinceCut: RowSet;
  /** Rows in the backing store that changed since the baseline, but not since the last cut. */
  sinceBaseline: RowSet;
}

/**
 * The state before the first cut. `places`: slots with hashes; 0 where all cuts are whole.
 * `memory`: has sums and hashes of cuts already; left out: they are 0.
 */
export function createSavedRows(
  shard: Shard,
  options: { readonly dim: number; readonly state: StateShape; readonly places: number },
  memory?: Pick<SavedRows, "sums" | "hashes">,
): SavedRows {
  const hashing = rowHashing(shard, options.dim, options.state);
  return {
    hashing,
    sums: memory?.sums ?? new Uint32Array(hashing.words),
    hashes: memory?.hashes ?? new Uint32Array(options.places * hashing.words),
    sinceCut: createRowSet(),
    sinceBaseline: createRowSet(),
  };
}

export function savedLeaves({ sums }: SavedRows): string[] {
  return leavesOfSums(sums);
}

/** Yields the rows that a cut takes of a shard in memory, ascending, and marks them saved. */
export function* cutInMemory(
  kernels: Kernels,
  rows: Rows,
  saved: SavedRows,
  taken: TakenRows,
): Generator<RowRecords> {
  const { hashing, sums, hashes } = saved;
  const { touched, firstRow } = rows;
  const isWhole = taken === "whole";
  if (isWhole) sums.fill(0);
  for (const chunk of recordsOf(kernels, rows, lastMark[taken])) {
    const wanted = new Uint8Array(chunk.rows.length);
    for (let i = 0; i < chunk.rows.length; i++) {
      const at = (chunk.rows[i] ?? 0) - firstRow;
      if (isWhole || touched[at] === marks.changed) wanted[i] = 1;
      touched[at] = isWhole ? marks.saved : marks.different;
    }
    const found = hashing.all(chunk, wanted);
    for (let i = 0; i < chunk.rows.length; i++) {
      if (wanted[i] === 0) continue;
      const at = (chunk.rows[i] ?? 0) - firstRow;
      if (!isWhole) subtractSum(sums, hashes, at);
      noteHash(saved, found, i, at);
    }
    yield chunk;
  }
}

/** Computes sums and hashes from rows in memory, after they were restored. */
export function resumeInMemory(kernels: Kernels, rows: Rows, saved: SavedRows): void {
  const { hashing, sums } = saved;
  sums.fill(0);
  for (const chunk of recordsOf(kernels, rows)) {
    const found = hashing.all(chunk);
    for (let i = 0; i < chunk.rows.length; i++) {
      noteHash(saved, found, i, (chunk.rows[i] ?? 0) - rows.firstRow);
    }
  }
}

/** Adds hash `i` of `found` to the sums, and notes it as that of the row in slot `at`. S2 */
function noteHash({ sums, hashes }: SavedRows, found: Uint32Array, i: number, at: number): void {
  addSum(sums, found, i);
  if (hashes.length === 0) return;
  const { length: words } = sums;
  for (let w = 0; w < words; w++) hashes[at * words + w] = found[i * words + w] ?? 0;
}

/** Most rows of a list, and of a tile beside it, whose hashes are compared. */
const comparedMax = 1024;

/**
 * Whether rows in memory have the hashes that the last cut noted: some of `changed` (relative to
 * the first row), and some of all rows if it is empty. Rows without a noted hash count as intact.
 */
export function areIntact(
  kernels: Kernels,
  rows: Rows,
  { hashing, hashes }: SavedRows,
  changed: Int32Array,
): boolean {
  if (hashes.length === 0) return true;
  const count = changed.length === 0 ? rows.rows : changed.length;
  const stride = Math.max(1, Math.floor(count / comparedMax));
  for (let i = 0; i < count; i += stride) {
    const at = changed.length === 0 ? i : (changed[i] ?? 0);
    const noted = hashes.subarray(at * hashing.words, (at + 1) * hashing.words);
    if (rows.touched[at] === 0 || noted.every((word) => word === 0)) continue;
    const record = {
      rows: Int32Array.of(rows.firstRow + at),
      weights: kernels.readRows(rows, at, 1),
      state: kernels.read(kernels.part(rows.state, at, 1)),
    };
    if (!hashing.of(record, 0).every((word, w) => word === noted[w])) return false;
  }
  return true;
}

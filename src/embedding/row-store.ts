// The row store's contract: where the rows of a device's tables rest, with their optimizer's state.
// Implementations: the slab (slab.ts), all in device memory; later the cache tiers.
//
// T = tables of the store, B = samples, C = columns of all its tables side by side, W = state
// floats.
//
// An update has two phases, because a row may be split by columns over devices: `partials` gives
// the sums of squares of the part that is here, the exchange completes them, `update` applies.
// Where whole rows are here, `update` alone does both in one pass.

import type { Bags, RowRule, RowSums, Tensor } from "../kernels/kernels.ts";
import type { Slices } from "../kernels/slices.ts";

/** Rows of one table as they travel to and from rest. All arrays run over the same rows. */
export interface RowRecords {
  /** (n), ascending. */
  readonly rows: Int32Array;
  /** (n, D) */
  readonly weights: Float32Array;
  /** (n, W) */
  readonly state: Float32Array;
}

export interface RowStore {
  /** Indices in the job of the tables that rest here, ascending. */
  readonly tables: readonly number[];
  /** Columns of all tables side by side. */
  readonly columns: number;
  /** out (count, C): pooled vectors of samples first .. first+count-1. Creates nothing. */
  lookup(out: Tensor, bags: Bags, first: number, count: number): void;
  /** Sums of squares of table `table` (position in `tables`) per distinct row and quantum. */
  partials(
    table: number,
    bags: Bags,
    dPooled: Tensor,
    slices: Slices,
    rules: readonly RowRule[],
  ): Float32Array;
  /**
   * Each touched row takes its gradient once. Rows are born here, and only here. Returns the first
   * table (position in `tables`) of which a row is no longer finite; -1: none.
   */
  update(
    bags: Bags,
    dPooled: Tensor,
    slices: Slices,
    rules: readonly RowRule[],
    completed?: readonly (RowSums | undefined)[],
  ): number;
  /** Rows born so far. */
  rowsBorn(table: number): number;
  /** The born rows of a table in ascending order, in chunks. */
  records(table: number): Iterable<RowRecords>;
  /** Puts rows back as they were at a cut; they count as born. */
  restore(table: number, records: RowRecords): void;
}

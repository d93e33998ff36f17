// The contract of row stores, which hold the rows of a device's shards and their optimizer state,
// in device memory or in a backing store behind a cache (slab.ts).
//
// S = shards of the store, B = samples, C = columns of all lookups in its shards, concatenated,
// D = columns of a shard, W = state floats of its rows. A shard has one lookup for each feature of
// its table; these lookups are adjacent.
//
// An update has two phases, because the columns of a row may be split over devices: `squares` (and
// `norms`) give the sums over the local columns, the exchange completes them, `update` applies
// them. Where whole rows are local, `update` alone does both in one pass.
//
// A batch is staged and arrives before its rows are looked up, and is released after their update.
// Batches go through these stages in the order of staging.

import type { Bags, RowRule, RowSums, Tensor } from "../../kernels/contract/kernels.ts";
import type { RowAverage } from "../../kernels/contract/row-average.ts";
import type { Slices } from "../../kernels/contract/slices.ts";
import type { Shard } from "../tables/shards.ts";
import type { Extent, RowRecords, TakenRows } from "./row-records.ts";
import type { StagedBags } from "./staging.ts";

export interface RowStore {
  /** The local shards, in the order of bags and columns. */
  readonly shards: readonly Shard[];
  /** C: columns of all lookups, concatenated. */
  readonly columns: number;
  /** Starts to bring a batch's rows into device memory, without waiting for them. */
  stage(bags: Bags): Promise<StagedBags>;
  /** Waits for the rows of the oldest staged batch that has not arrived yet. */
  arrive(bags: StagedBags): Promise<void>;
  /** The batch is done: its rows may leave device memory. */
  release(bags: StagedBags): Promise<void>;
  /**
   * out (count, C): pooled vectors of samples first .. first+count-1. Initialises no rows. With
   * `of`, only the vectors of the lookups in this range: C is then the number of their columns, and
   * `bags` is still over all lookups. With `average`, pools the rows' moving averages.
   */
  lookup(
    out: Tensor,
    bags: StagedBags,
    first: number,
    count: number,
    of?: { readonly first: number; readonly count: number },
    average?: RowAverage,
  ): void;
  /**
   * For each shard of a range: sums of squares of the gradient, per distinct row and quantum. The
   * arrays share memory.
   */
  squares(
    of: { readonly first: number; readonly count: number },
    bags: StagedBags,
    dPooled: Tensor,
    slices: Slices,
    rules: readonly RowRule[],
  ): Float32Array[];
  /**
   * LAMB: sums of squares of weights and direction, as `squares`. `means`: the completed means of
   * squares of each shard of the range, for rules that take them.
   */
  norms(
    of: { readonly first: number; readonly count: number },
    bags: StagedBags,
    dPooled: Tensor,
    slices: Slices,
    rules: readonly RowRule[],
    means?: readonly Float32Array[],
  ): Float64Array[];
  /**
   * Applies each touched row's gradient once. Only this initialises rows. `completed`: the sums
   * over all devices' columns, for each shard; undefined where whole rows are local. Returns the
   * index in `shards` of the first shard with a row that is no longer finite; -1: none.
   */
  update(
    bags: StagedBags,
    dPooled: Tensor,
    slices: Slices,
    rules: readonly RowRule[],
    completed?: readonly (RowSums | undefined)[],
  ): number;
  /**
   * Makes rows of the shard at `at` uninitialised again, on every tier. Rows are relative to the
   * shard's first row, ascending. No batch may be in flight.
   */
  evict(at: number, rows: Int32Array): Promise<void>;
  /** The initialised rows of the shard at `at`, ascending, in chunks. No batch may be in flight. */
  records(at: number): AsyncIterable<RowRecords>;
  /**
   * The rows that a cut takes from the shard at `at`, ascending, in chunks; rows are marked saved
   * as they are yielded. No batch may be in flight. A baseline is a cut with `whole`.
   */
  cut(at: number, taken: TakenRows): AsyncIterable<RowRecords>;
  /** Leaves of the digest over all rows of the shard at `at`, as of its last cut. */
  leaves(at: number): string[];
  /**
   * Restores rows to a cut's values, as initialised rows. `extent` is the records' extent: only the
   * overlap with the shard is used. Each row is restored once. `isDifferent`: the rows differ from
   * the cut's baseline.
   */
  restore(at: number, extent: Extent, records: RowRecords, isDifferent: boolean): Promise<void>;
  /**
   * Completes a restore from a checkpoint with the same shard at `at`, so that the next cut may be
   * an increment.
   */
  resume(at: number): void;
}

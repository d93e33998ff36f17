// The row store's contract: where the rows of a device's shards rest, with their optimizer's state:
// in device memory, or below it behind a cache (slab.ts).
//
// S = shards of the store, B = samples, C = columns of all its shards side by side, D = columns
// of a shard, W = state floats of its rows.
//
// An update has two phases, because a row may be split by columns over devices: `squares` (and
// `norms`) give the sums of the part that is here, the exchange completes them, `update` applies.
// Where whole rows are here, `update` alone does both in one pass.
//
// A batch is staged before its rows are looked up, arrives, and is released when they were updated:
// batches in the order in which they were staged.

import type { Bags, RowRule, RowSums, Tensor } from "../../kernels/contract/kernels.ts";
import type { Slices } from "../../kernels/contract/slices.ts";
import type { Shard } from "../tables/shards.ts";
import type { Extent, RowRecords, TakenRows } from "./row-records.ts";
import type { StagedBags } from "./staging.ts";

export interface RowStore {
  /** What rests here, in the order of bags and columns. */
  readonly shards: readonly Shard[];
  /** Columns of all shards side by side. */
  readonly columns: number;
  /** Begins to bring the rows of a batch into device memory; does not wait for them. */
  stage(bags: Bags): Promise<StagedBags>;
  /** Waits for the rows of the batch that was staged longest ago and has not arrived yet. */
  arrive(bags: StagedBags): Promise<void>;
  /** The batch is done: its rows may leave device memory. */
  release(bags: StagedBags): Promise<void>;
  /**
   * out (count, C): pooled vectors of samples first .. first+count-1. Creates nothing. With `of`
   * only those of some of its shards, side by side: C are theirs, `bags` those of all.
   */
  lookup(
    out: Tensor,
    bags: StagedBags,
    first: number,
    count: number,
    of?: { readonly first: number; readonly count: number },
  ): void;
  /** Sums of squares of the gradient, per distinct row and quantum of the shard at `at`. */
  squares(
    at: number,
    bags: StagedBags,
    dPooled: Tensor,
    slices: Slices,
    rules: readonly RowRule[],
  ): Float32Array;
  /** LAMB: sums of squares of weights and direction, per distinct row and quantum. */
  norms(
    at: number,
    bags: StagedBags,
    dPooled: Tensor,
    slices: Slices,
    rules: readonly RowRule[],
    means?: Float32Array,
  ): Float64Array;
  /**
   * Each touched row takes its gradient once. Rows are born here, and only here. `completed`: what
   * other devices' columns add, for each shard; undefined where whole rows are here. Returns the
   * place in `shards` of the first of which a row is no longer finite; -1: none.
   */
  update(
    bags: StagedBags,
    dPooled: Tensor,
    slices: Slices,
    rules: readonly RowRule[],
    completed?: readonly (RowSums | undefined)[],
  ): number;
  /**
   * Rows of the shard at `at`, counted from its first, ascending, are uninitialised again, whatever
   * tier they rest on. No batch is in flight.
   */
  evict(at: number, rows: Int32Array): Promise<void>;
  /** The born rows of the shard at `at` in ascending order, in chunks. No batch is in flight. */
  records(at: number): AsyncIterable<RowRecords>;
  /**
   * Some born rows of the shard at `at` in ascending order, in chunks; as they leave, they count as
   * saved. No batch is in flight. A baseline is a cut that took the `whole`.
   */
  cut(at: number, taken: TakenRows): AsyncIterable<RowRecords>;
  /** Leaves of the digest over all rows of the shard at `at`, as its last cut left them. */
  leaves(at: number): string[];
  /**
   * Puts rows back as they were at a cut; they count as born. `extent` is that of the records: only
   * what the shard shares with it is taken. A row comes once. `isDifferent`: the cut's baseline has
   * it otherwise.
   */
  restore(at: number, extent: Extent, records: RowRecords, isDifferent: boolean): Promise<void>;
  /** All is restored, from a checkpoint of this very shard: the next cut may be a difference. */
  resume(at: number): void;
}

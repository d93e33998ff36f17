// The contract of the kernels: every piece of arithmetic on tensors, one signature each.
// `reference.ts` is the definition, in plain loops. src/kernels/table/table.ts has the shapes of
// the arguments, and native/table.h the same names in C++.
//
// B = samples, I/O = inputs/outputs of a layer, F = features, D = embedding dim, T = tables, C =
// columns of all tables, concatenated, N = ids, P = subtrees of slices, R = rows of a table. Output
// first, gradients start with `d`, each backward follows its forward. Every kernel overwrites its
// output. Calls are synchronous, and no kernel keeps an argument.
//
// Bracketing (law 4): a sum over inputs, columns of a feature or ids of a bag is sequential in
// index order, each term by a fused multiply-add; a sum over samples is sequential inside a slice,
// then the tree over slices (slices.ts). No sum depends on how many samples a call has. Layers with
// bfloat16 operands sum over k in pairs: bfloat16.ts is their definition.

import type { Key } from "../../ports/random.ts";
import type { BlockKernels } from "./blocks.ts";
import type { ExchangeKernels } from "./exchange.ts";
import type { LossTerm } from "./loss.ts";
import type { RecordKernels } from "./records.ts";
import type { RowAverage } from "./row-average.ts";
import type { CacheKernels } from "./row-cache.ts";
import type { RowRule } from "./rules.ts";
import type { Slices, Subtree } from "./slices.ts";
import type { Bags, RowOrder, RowSums, Rows, RowsSpec } from "./tables.ts";
import type { Tensor } from "./tensor.ts";
import type { UndoKernels } from "./undo.ts";

export * from "./blocks.ts";
export type { ExchangeKernels, Selected } from "./exchange.ts";
export * from "./loss.ts";
export type { RecordKernels } from "./records.ts";
export type { CacheKernels, Placed, PlacedMemory, RowCache, RowCacheSpec } from "./row-cache.ts";
export * from "./rows-memory.ts";
export * from "./rules.ts";
export * from "./tables.ts";
export * from "./tensor.ts";
export type { UndoKernels, UndoneTile, UndoTail } from "./undo.ts";

/**
 * The precision that the operands of a layer's products are rounded to. Sums, biases and outputs of
 * a layer are float32 in both.
 */
export type DensePrecision = "float32" | "bfloat16";

export interface Kernels
  extends BlockKernels,
    CacheKernels,
    ExchangeKernels,
    RecordKernels,
    UndoKernels {
  /** Names the arithmetic: equal names give equal bits. Recorded in every checkpoint. */
  readonly arithmetic: string;
  /** The instruction set that computes, `reference` for TypeScript; it changes no bit. */
  readonly set: string;
  /**
   * Runs `work`, and returns a function that repeats its calls of these kernels with the same
   * arguments, without checks: on the same memory, with the values that it then has. Undefined if
   * a call returned a value other than a handle by `view`, `part` or `reshape`, because `work` may
   * have acted on the value.
   */
  recorded(work: () => void): (() => void) | undefined;

  // Memory ----

  /** A zeroed tensor in the kernels' own memory. */
  tensor(shape: readonly number[]): Tensor;
  /** A tensor over host memory that may be shared. `byteOffset` is a multiple of 4. */
  view(buffer: ArrayBufferLike, byteOffset: number, shape: readonly number[]): Tensor;
  /** Entries first .. first+count-1 of the leading dimension; shares memory. */
  part(t: Tensor, first: number, count: number): Tensor;
  /** The same memory under another shape, from element `first`. */
  reshape(t: Tensor, shape: readonly number[], first?: number): Tensor;
  /** Copies host values into a tensor; lengths must agree. */
  write(t: Tensor, values: Float32Array): void;
  /** Copies the values of a tensor to host memory. */
  read(t: Tensor): Float32Array;
  /** Sets every element. */
  fill(t: Tensor, value: number): void;
  /** Copies a whole tensor; element counts must agree. */
  copy(out: Tensor, from: Tensor): void;
  /** t[:, first .. +columns] *= factor, a float64; t (B, ·). */
  scaleColumns(t: Tensor, first: number, columns: number, factor: number): void;
  /** Index of the first element that is NaN or infinite; -1: none. For error reports only. */
  firstNonFinite(t: Tensor): number;
  /** out[:, outFirst .. +columns] = from[:, fromFirst .. +columns]; both (B, ·). */
  copyColumns(
    out: Tensor,
    outFirst: number,
    from: Tensor,
    fromFirst: number,
    columns: number,
  ): void;
  /**
   * `copyColumns` of several ranges of columns. `runs` (3n): for each range the first column in
   * `out`, the first in `from`, and the number of columns; ranges in `out` do not overlap.
   */
  copyRuns(out: Tensor, from: Tensor, runs: Int32Array): void;
  /**
   * Allocates R rows, 0 or more, with `touched`, weights and state all 0; or opens the rows that
   * lie in `spec.memory`.
   */
  rows(spec: RowsSpec): Rows;
  /** Weights (count,D) of rows first .. first+count-1, as they are stored. */
  readRows(rows: Rows, first: number, count: number): Float32Array;
  /**
   * Sets rows from `first` on to weights (·,D), rounded to the nearest value of the precision.
   */
  writeRows(rows: Rows, first: number, weights: Float32Array): void;

  // Initialisation ----

  /**
   * t (n): element i = (2u-1)*scale with u the 24 high bits of philox word (first+i)%4 of counter
   * [block low, block high, 0, purpose], block = floor((first+i)/4), as a fraction of 2^24.
   * Exactly: fround(fround(u24 * 2^-23 - 1) * fround(scale)).
   */
  uniform(t: Tensor, key: Key, purpose: number, first: number, scale: number): void;
  /**
   * Initialises each weight of the tile with the `uniform` value of element row * tableDim + column
   * of its table, rounded to the nearest value of the precision.
   */
  born(rows: Rows, key: Key, purpose: number, scale: number): void;

  // Dense layers; `precision` left out means float32 ----

  /** out (B,O) = x (B,I) * w (O,I)^T + b (O), then ReLU if `relu`. The sum starts from b. */
  linear(
    out: Tensor,
    x: Tensor,
    w: Tensor,
    b: Tensor,
    relu: boolean,
    precision?: DensePrecision,
  ): void;
  /**
   * A copy of weights w (O,I) in the order in which `linearPacked` reads them. The layout is
   * private to the implementation, so the copy is valid in this process only.
   */
  packLayer(w: Tensor): Tensor;
  /**
   * `linear` in float32 with weights (O,I) from `packLayer`, with the same bits. It is faster for
   * few samples, for which `linear` spends most of its time on packing the weights.
   */
  linearPacked(out: Tensor, x: Tensor, packed: Tensor, b: Tensor, relu: boolean): void;
  /** d (B,O): zero where out (B,O) is not positive. In place. */
  dRelu(d: Tensor, out: Tensor): void;
  /**
   * dX (B,I) = dOut (B,O) * w (O,I). Sum over O in order, from 0; then each of `plus` (B,I), at
   * most `addendsMax`, is added in order; then zero where `above` (B,I) is not positive, as by
   * `dRelu`.
   */
  dLinearInput(
    dX: Tensor,
    dOut: Tensor,
    w: Tensor,
    precision?: DensePrecision,
    plus?: readonly Tensor[],
    above?: Tensor,
  ): void;
  /**
   * For subtree p, dW[p] (O,I) = dOut^T x and dB[p] (O) = column sums of dOut, over the samples of
   * its slices. dW and dB have one tensor for each of `finishedSubtrees(slices)`, in order. dB sums
   * dOut unrounded, in either precision.
   */
  dLinearWeight(
    dW: readonly Tensor[],
    dB: readonly Tensor[],
    dOut: Tensor,
    x: Tensor,
    slices: Slices,
    precision?: DensePrecision,
  ): void;
  /**
   * x (B,C) in place: 0 with probability `rate`, else x / (1-rate). Element (b,c) draws word j%4 of
   * counter [block low, block high, step, purpose], j = (firstSample+b)*C + c, block = floor(j/4);
   * it is dropped if the word is below floor(rate * 2^32). It is its own backward: call it on d.
   */
  dropout(
    x: Tensor,
    key: Key,
    purpose: number,
    step: number,
    firstSample: number,
    rate: number,
  ): void;

  // Interaction ----

  /**
   * out (B, copied*D + pairs) from x (B,F,D): the first `copied` features, concatenated, then, if
   * `dots`, x_i . x_j for i in 0..F-1, j in 0..i-1, row by row below the diagonal.
   */
  interact(out: Tensor, x: Tensor, copied: number, dots: boolean): void;
  /** dX (B,F,D) from dOut. dX_i = copied part + sum over j != i in ascending j of dZ_ij * x_j. */
  dInteract(dX: Tensor, dOut: Tensor, x: Tensor, copied: number, dots: boolean): void;

  // Loss ----

  /**
   * `losses` (slices): the sum of all terms over the samples of each slice, in float64. dLogits
   * (B,K): the gradient of the sum over the batch, divided by batchSize. logits (B,K), labels
   * (B,L). A column without a term has the gradient 0. With `weights` (B), loss and gradient of a
   * sample are multiplied by its weight. With `labelled` (L), the number of the batch's samples
   * that have each label, NaN labels are missing: a term adds no loss and no gradient for them, and
   * is divided by `labelled` instead of batchSize, so that the loss of a batch is the sum of each
   * term's mean over the samples with its label.
   */
  loss(
    losses: Float64Array,
    dLogits: Tensor,
    logits: Tensor,
    labels: Tensor,
    terms: readonly LossTerm[],
    batchSize: number,
    slices: Slices,
    weights?: Tensor,
    labelled?: readonly number[],
  ): void;

  // Embedding bags ----

  /**
   * out (count, C): pooled vectors of samples first .. first+count-1 of `bags`, concatenated in the
   * order of `tables`. Empty bag: 0. Mean: sum / length, also where the bag has weights. With
   * `average`, pools the rows' moving averages, w + round(d^k) * lag by a fused multiply-add; all
   * tables must then have moving averages.
   */
  pool(
    out: Tensor,
    tables: readonly Rows[],
    bags: Bags,
    first: number,
    count: number,
    average?: RowAverage,
  ): void;
  /** `pool` of some samples: out (n, C); row i has the vectors of sample places[i] of `bags`. */
  poolAt(out: Tensor, tables: readonly Rows[], bags: Bags, places: Int32Array): void;
  /**
   * Finds the bags of `next` that have a row which any bag of `current` has in the same table; both
   * are bags of `tables`. Writes their indices t*B+b to `out`, ascending, as far as it has room.
   * Returns their number.
   */
  collidingBags(
    out: Int32Array,
    tables: readonly Rows[],
    next: Bags<Int32Array>,
    current: Bags<Int32Array>,
  ): number;
  /**
   * Sums the gradient of each looked-up row, then updates the row's weights, state and `touched`
   * once. dPooled (B,C) in the layout of `pool`; `slices` covers the whole batch (first = 0, S
   * slices). Bracketing of a row's gradient: inside a slice lookup by lookup, and sample by sample
   * (a repeated id is added each time, times its weight), then the slice tree. `rules` and
   * `completed` have a value per entry of `tables`; for several lookups in the same rows, that of
   * the first entry is used. `completed`: the whole-row values from the exchange; undefined: the
   * rows are whole. Returns the first entry of the first table with weights or state that are no
   * longer finite; -1: none. This check costs nothing beside the update. `order`: kept by
   * `rowSquares` for the tables with completed values, and for the same bags; left out: none.
   */
  updateRows(
    tables: readonly Rows[],
    bags: Bags,
    dPooled: Tensor,
    slices: Slices,
    rules: readonly RowRule[],
    completed?: readonly (RowSums | undefined)[],
    order?: RowOrder,
  ): number;
  /**
   * First phase of an update of rows that are split by columns. `tables`: the lookups of one table
   * or of several, side by side. dPooled (B,V) has the gradients of their columns from column
   * `first` on. Per table, per distinct row (ascending) and per quantum of 32 columns: the sum of
   * squares of its gradient, l2 included, as a pairwise tree over the quantum (lane i + lane i+16,
   * then 8, 4, 2, 1; missing columns are 0). `counts` (T), if given, receives the number of sums of
   * each table, at its first entry. `order`, if given, keeps the order of the lookups.
   */
  rowSquares(
    tables: readonly Rows[],
    bags: Bags,
    dPooled: Tensor,
    first: number,
    slices: Slices,
    rules: readonly RowRule[],
    counts?: Int32Array,
    order?: RowOrder,
  ): Float32Array;
  /**
   * Means of squares (n) of whole rows of `dim` columns. squares[i] is (n, quanta[i]) from
   * `rowSquares`, for consecutive ranges of quanta. The bracketing is that of an unsplit update:
   * float32, quantum by quantum from 0, then divided by `dim`.
   */
  rowMeans(squares: readonly Float32Array[], quanta: readonly number[], dim: number): Float32Array;
  /**
   * Second phase of LAMB for rows split by columns: per table, distinct row and quantum, the sums
   * of squares of the weights and of their update u (n, quanta, 2). Changes no memory. Takes the
   * arguments of `rowSquares`, and for partial row-wise LAMB `means`, the completed means of
   * squares of all tables, one after the other.
   */
  rowNorms(
    tables: readonly Rows[],
    bags: Bags,
    dPooled: Tensor,
    first: number,
    slices: Slices,
    rules: readonly RowRule[],
    means?: Float32Array,
    counts?: Int32Array,
  ): Float64Array;
  /**
   * Trust ratios (n) of whole rows. norms[i] is (n, quanta[i], 2) from `rowNorms`, for consecutive
   * ranges of quanta. |w|/|u|, or 1 where one of them is 0; squares are added in float64.
   */
  rowTrust(norms: readonly Float64Array[], quanta: readonly number[]): Float32Array;
  /**
   * The dense gradient of the table with the lookups `tables`: for each subtree p, dRows[p] (R,D),
   * and counts[p] (R), 1 where a sample of the subtree's slices looked the row up, else 0. dPooled
   * (B,V) has the gradients of their columns from column `first` on.
   */
  dRows(
    dRows: readonly Tensor[],
    counts: readonly Tensor[],
    tables: readonly Rows[],
    bags: Bags,
    dPooled: Tensor,
    first: number,
    slices: Slices,
  ): void;
  /**
   * Second phase of the update of a replicated table: updates rows with counts > 0 (all rows, if
   * `whole`) with their row of dRows (R,D), by the same rule and with the same bits as
   * `updateRows`. Returns false if an updated row is no longer finite.
   */
  applyRows(rows: Rows, dRows: Tensor, counts: Tensor, rule: RowRule, whole: boolean): boolean;

  // Sums over devices ----

  /**
   * out (n) = the slice tree over 0..slices-1, given its finished subtrees in order: parts[p] (n)
   * is the sum of trees[p].
   */
  foldSubtrees(
    out: Tensor,
    parts: readonly Tensor[],
    trees: readonly Subtree[],
    slices: number,
  ): void;

  // Dense optimizers, on flat tensors (n); false: the gradient g was not finite ----

  /** out = g * min(1, normMax / (|g| + 1e-6)), the norm in float64 in the order of elements. */
  clipNorm(out: Tensor, g: Tensor, normMax: number): boolean;
  /** out = g, with each element clamped to -most..most. */
  clipValues(out: Tensor, g: Tensor, most: number): boolean;
  /** average = decay * average + (1 - decay) * w, computed in float64 */
  average(average: Tensor, w: Tensor, decay: number): void;
  /** Swaps the values of two tensors. */
  swap(a: Tensor, b: Tensor): void;

  /**
   * Updates w (n), as one long row, by a rule without l2, clip, rounding and average, whose state
   * is of elements: `slots` has the tensors (n) of this state (`StateShape.perElement`).
   */
  applyFlat(w: Tensor, slots: readonly Tensor[], g: Tensor, rule: RowRule): boolean;
}

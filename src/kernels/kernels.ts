// The kernels' contract: every piece of arithmetic on tensors, one signature each. `reference.ts`
// is the definition, in plain loops; native/kernels.cc has the same names in the same order.
//
// B = samples, I/O = inputs/outputs of a layer, F = features, D = embedding dim, T = tables,
// C = columns of all tables side by side, N = ids, P = subtrees of slices, R = rows of a table.
// Output first, gradients start with `d`, each backward sits under its forward. Every kernel
// overwrites its output. Calls are ordinary: none returns a promise, none keeps an argument.
//
// Bracketing (law 4): a sum over inputs, columns of a feature or ids of a bag is sequential in
// index order, each term by a fused multiply-add; a sum over samples is sequential inside a slice,
// then the tree over slices (slices.ts). None depends on how many samples a call holds. Layers
// whose operands are bfloat16 take k in pairs: reference-bfloat16.ts is their definition.

import type { Key } from "../random.ts";
import type { Codes, Precision, Rounding } from "./precision.ts";
import type { Slices, Subtree } from "./slices.ts";

/**
 * A float32 array, row-major: a handle. Only src/kernels and the edge of the exchange may look
 * inside; everybody else passes it on, so that a device with memory of its own can come in.
 */
export interface Tensor {
  readonly shape: readonly number[];
}

/**
 * Most rows of a table, or of a shard of one: a row is 31 bits in sort keys and bags. Places in a
 * table's memory, row * dim, have 64.
 */
export const rowsMax = 0x7fff_ffff;

/**
 * Table-major jagged ids of T tables and B samples. 32-bit ids were checked against their tables;
 * 64-bit ones are checked by the kernel. @throws RangeError naming the table and the id
 */
export interface Bags<Ids extends Int32Array | BigInt64Array = Int32Array | BigInt64Array> {
  readonly tables: number;
  readonly samples: number;
  /** (T*B+1): the ids of bag (t,b) are ids[offsets[t*B+b]] .. ids[offsets[t*B+b+1]-1]. */
  readonly offsets: Int32Array;
  readonly ids: Ids;
  /** (N): what each looked-up row counts in its bag; left out, 1. They take no gradient. */
  readonly weights?: Float32Array;
}

export type Pooling = "sum" | "mean";

/** Rows of one table in device memory: weights, their optimizer's state, and who was touched. */
export interface Rows {
  readonly rows: number;
  readonly dim: number;
  readonly pooling: Pooling;
  /** Power of two. A pooled vector is the tree over blocks of sums in bag order. */
  readonly rowBlocks: number;
  /** How weights are stored; arithmetic is float32. */
  readonly precision: Precision;
  /** (R,D); empty where they are stored in fewer bits. */
  readonly weights: Tensor;
  /** (R,D): the codes of weights in fewer bits (precision.ts); else empty. */
  readonly codes: Codes;
  /** (R, D/32 rounded up): of int8 rows, one for each quantum of columns; else empty. */
  readonly exponents: Int8Array;
  /** (R,W), W = stateWidth of the rule: 0, 1 (row-wise), D, D+1 (partial row-wise) or 2D. */
  readonly state: Tensor;
  /** (R): 1 where the row was born, that is, updated in a committed or running step. */
  readonly touched: Uint8Array;
}

interface Rounded {
  /** How new weights are rounded; needed where the table stores them in fewer bits. */
  readonly rounding?: Rounding;
}

/** What every rule has but FTRL, which shrinks weights in its own way. */
interface Shrinking extends Rounded {
  readonly learningRate: number;
  /** g becomes g + l2*w before anything else is done with it. */
  readonly l2: number;
  /** Decoupled weight decay: w becomes (1 - learningRate*decay)*w before it takes its step. */
  readonly decay: number;
}

/** The numbers of Adam and its kin. */
export interface AdamNumbers {
  readonly learningRate: number;
  readonly beta1: number;
  readonly beta2: number;
  readonly epsilon: number;
  readonly decay: number;
  /** 1 - beta1^t and 1 - beta2^t of this step. */
  readonly correction1: number;
  readonly correction2: number;
}

export interface SgdRule extends Shrinking {
  readonly kind: "sgd";
}

/** b = momentum*b + g; w -= learningRate * b */
export interface MomentumRule extends Shrinking {
  readonly kind: "momentum";
  readonly momentum: number;
}

export interface AdagradRule extends Shrinking {
  readonly kind: "adagrad" | "rowWiseAdagrad";
  readonly epsilon: number;
}

/**
 * `partialRowWiseAdam`: Adam with one second moment a row, of the mean of squares.
 * `lamb`: u = Adam's direction + decay*w; w -= learningRate * |w|/|u| * u; the decay is only here.
 * `partialRowWiseLamb`: LAMB with one second moment a row.
 */
export interface AdamRule extends AdamNumbers, Rounded {
  readonly kind: "adam" | "partialRowWiseAdam" | "lamb" | "partialRowWiseLamb";
  readonly l2: number;
}

/**
 * FTRL-proximal (McMahan et al., KDD'13): s = (sqrt(n + g*g) - sqrt(n)) / learningRate;
 * z += g - s*w; n += g*g;
 * w = -(z cut towards 0 by lambda1) / ((beta + sqrt(n)) / learningRate + lambda2).
 */
export interface FtrlRule extends Rounded {
  readonly kind: "ftrl";
  readonly learningRate: number;
  readonly l2: number;
  readonly beta: number;
  readonly lambda1: number;
  readonly lambda2: number;
}

/**
 * How a row takes its gradient g (papers.md 1.5); a dense tensor is one long row. Means and norms
 * are formed over the columns of the whole row, by quanta.
 */
export type RowRule = SgdRule | MomentumRule | AdagradRule | AdamRule | FtrlRule;

/** State floats per row of `dim` columns: those of each element first, then those of the row. */
export function stateWidth(kind: RowRule["kind"], dim: number): number {
  switch (kind) {
    case "sgd":
      return 0;
    case "rowWiseAdagrad":
      return 1;
    case "momentum":
    case "adagrad":
      return dim;
    case "partialRowWiseAdam":
    case "partialRowWiseLamb":
      return dim + 1;
    case "adam":
    case "lamb":
    case "ftrl":
      return 2 * dim;
    default:
      return kind satisfies never;
  }
}

/** Whether the rule needs norms that only a whole row has: its table is not split by columns. */
export function needsWholeRows(kind: RowRule["kind"]): boolean {
  return kind === "lamb" || kind === "partialRowWiseLamb";
}

/** Columns of one quantum: the unit of column-wise sharding and of every row-wise mean. */
export const quantumColumns = 32;

/**
 * What the operands of a layer's products are rounded to. Sums, biases and all that a layer puts
 * out are float32 in both.
 */
export type DensePrecision = "float32" | "bfloat16";

export interface Kernels {
  /** Names the arithmetic: equal names give equal bits. Recorded in every checkpoint. */
  readonly arithmetic: string;

  // Memory ----

  /** A zeroed tensor in the kernels' own memory. */
  tensor(shape: readonly number[]): Tensor;
  /** A tensor over host memory that others may see. `byteOffset` is a multiple of 4. */
  view(buffer: ArrayBufferLike, byteOffset: number, shape: readonly number[]): Tensor;
  /** Entries first .. first+count-1 of the leading dimension; shares memory. */
  part(t: Tensor, first: number, count: number): Tensor;
  /** The same memory under another shape, from element `first`. */
  reshape(t: Tensor, shape: readonly number[], first?: number): Tensor;
  /** Copies host values in; lengths must agree. */
  write(t: Tensor, values: Float32Array): void;
  /** Copies the values out to host memory. */
  read(t: Tensor): Float32Array;
  /** Sets every element. */
  fill(t: Tensor, value: number): void;
  /** Copies a whole tensor; element counts must agree. */
  copy(out: Tensor, from: Tensor): void;
  /** Index of the first element that is NaN or infinite; -1: none. Only for what went wrong. */
  firstNonFinite(t: Tensor): number;
  /** out[:, outFirst .. +columns] = from[:, fromFirst .. +columns]; both (B, ·). */
  copyColumns(
    out: Tensor,
    outFirst: number,
    from: Tensor,
    fromFirst: number,
    columns: number,
  ): void;
  /** Reserves R rows. `touched` starts at 0, weights and state at 0. */
  rows(spec: {
    rows: number;
    dim: number;
    pooling: Pooling;
    rowBlocks: number;
    stateWidth: number;
    /** @default "float32" */
    precision?: Precision;
  }): Rows;
  /** Weights (count,D) of rows first .. first+count-1, as they are stored. */
  readRows(rows: Rows, first: number, count: number): Float32Array;
  /** Sets rows from `first` on to weights (·,D), rounded to the nearest that can be stored. */
  writeRows(rows: Rows, first: number, weights: Float32Array): void;

  // Birth ----

  /**
   * t (n): element i = (2u-1)*scale with u the 24 high bits of philox word (first+i)%4 of counter
   * [block low, block high, 0, purpose], block = floor((first+i)/4), as a fraction of 2^24.
   * Exactly: fround(fround(u24 * 2^-23 - 1) * fround(scale)).
   */
  uniform(t: Tensor, key: Key, purpose: number, first: number, scale: number): void;

  // Dense layers; `precision` is float32 where it is left out ----

  /** out (B,O) = x (B,I) * w (O,I)^T + b (O), then ReLU if asked. The sum starts from b. */
  linear(
    out: Tensor,
    x: Tensor,
    w: Tensor,
    b: Tensor,
    relu: boolean,
    precision?: DensePrecision,
  ): void;
  /** d (B,O): zero where out (B,O) is not positive. In place. */
  dRelu(d: Tensor, out: Tensor): void;
  /** dX (B,I) = dOut (B,O) * w (O,I). Sum over O in order, from 0. */
  dLinearInput(dX: Tensor, dOut: Tensor, w: Tensor, precision?: DensePrecision): void;
  /**
   * Subtree p of dW[p] (O,I) = dOut^T x and dB[p] (O) = column sums of dOut, over the samples of
   * its slices. dW and dB hold one tensor for each of `subtreesOf(slices)`, in order. dB is the sum
   * of dOut as it is, in either precision.
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
   * it is dropped where the word is below floor(rate * 2^32). Its own backward: call it on d.
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
   * out (B, copied*D + pairs) from x (B,F,D): the first `copied` features side by side, then, if
   * `dots`, x_i . x_j for i in 0..F-1, j in 0..i-1, row by row below the diagonal.
   */
  interact(out: Tensor, x: Tensor, copied: number, dots: boolean): void;
  /** dX (B,F,D) from dOut. dX_i = copied part + sum over j != i in ascending j of dZ_ij * x_j. */
  dInteract(dX: Tensor, dOut: Tensor, x: Tensor, copied: number, dots: boolean): void;

  // Loss ----

  /**
   * dLogits (B) = (sigmoid(z) - y) / batchSize, and the sum of the samples' binary cross-entropies
   * of each slice, in float64, in `losses` (slices).
   */
  bceWithLogits(
    losses: Float64Array,
    dLogits: Tensor,
    logits: Tensor,
    labels: Tensor,
    batchSize: number,
    slices: Slices,
  ): void;

  // Embedding bags ----

  /**
   * out (count, C): pooled vectors of samples first .. first+count-1 of `bags`, tables side by side
   * in the order of `tables`. Empty bag: 0. Mean: sum / length, also where the bag has weights.
   */
  pool(out: Tensor, tables: readonly Rows[], bags: Bags, first: number, count: number): void;
  /**
   * Adds up each touched row's gradient, exactly once, and updates weights, state and `touched`.
   * dPooled (B,C) as `pool` lays it out; `slices` covers the whole batch (first = 0, S slices).
   * Row gradient: sample order inside a slice (a repeated id adds again, each lookup times its
   * weight), then the slice tree.
   * `sums`, where given, holds for each table the mean of squares of its distinct rows in
   * ascending order, as `rowSquares` made them and others completed them; none for tables of a
   * rule that needs whole rows. Returns the first table of which a row, or its state, is no longer
   * finite, -1: none. Looking costs nothing beside the update.
   */
  updateRows(
    tables: readonly Rows[],
    bags: Bags,
    dPooled: Tensor,
    slices: Slices,
    rules: readonly RowRule[],
    sums?: readonly Float32Array[],
  ): number;
  /**
   * First phase of an update whose rows are split by columns: for table `table` of `bags`, per
   * distinct row (ascending) and per quantum of 32 columns the sum of squares of its gradient, l2
   * included: a pairwise tree over the quantum (lane i + lane i+16, then 8, 4, 2, 1; missing
   * columns are 0).
   */
  rowSquares(
    tables: readonly Rows[],
    table: number,
    bags: Bags,
    dPooled: Tensor,
    slices: Slices,
    rules: readonly RowRule[],
  ): Float32Array;
  /**
   * The gradient of a replicated table, dense: for each subtree p, dRows[p] (R,D) and counts[p]
   * (R), 1 where a sample of the subtree's slices looked the row up, else 0.
   */
  dRows(
    dRows: readonly Tensor[],
    counts: readonly Tensor[],
    tables: readonly Rows[],
    table: number,
    bags: Bags,
    dPooled: Tensor,
    slices: Slices,
  ): void;
  /**
   * Second half for a replicated table: rows with counts > 0 (all rows, if `whole`) take their row
   * of dRows (R,D) under the same rule and bits as `updateRows`. False where a row that was
   * updated is no longer finite.
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

  // Dense optimizers, on flat tensors (n); each returns false where g was not finite ----

  /** w -= lr*g */
  sgd(w: Tensor, g: Tensor, learningRate: number): boolean;
  /** acc += g*g; w -= lr * g / (sqrt(acc) + eps) */
  adagrad(w: Tensor, acc: Tensor, g: Tensor, learningRate: number, epsilon: number): boolean;
  /** buffer = momentum*buffer + g; w -= lr*buffer */
  momentum(w: Tensor, buffer: Tensor, g: Tensor, learningRate: number, momentum: number): boolean;
  /**
   * m, v by beta1, beta2; w -= lr/c1 * m / (sqrt(v)/sqrt(c2) + eps), c = 1 - beta^t, after w was
   * multiplied by 1 - lr*decay (AdamW).
   */
  adam(w: Tensor, m: Tensor, v: Tensor, g: Tensor, rule: AdamNumbers): boolean;
  /** u = Adam's direction + decay*w; w -= lr * |w|/|u| * u. One norm for the whole of w. */
  lamb(w: Tensor, m: Tensor, v: Tensor, g: Tensor, rule: AdamNumbers): boolean;
}

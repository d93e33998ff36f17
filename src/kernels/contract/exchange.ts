// Kernels on vectors that devices exchange: folds of partial sums, division for means, expansion of
// distinct lists, packing. Letters as in kernels.ts; U = distinct lists of a group.

import type { WirePrecision } from "./precision.ts";
import type { PackedAt, PooledPart, Tensor } from "./tensor.ts";

/** Some elements of a vector: where they are, in ascending order, and their values in bfloat16. */
export interface Selected {
  readonly indices: Int32Array;
  readonly codes: Uint16Array;
}

export interface ExchangeKernels {
  /**
   * out[:, outFirst .. +columns] = the sum tree over row blocks 0..blocks-1 of a table, from tiles
   * that were pooled as sums, each node left + right; blocks without a part are +0. Parts are in
   * the order of their blocks. Then, with `lengths` (B), divided by the length of the whole bag,
   * below 2^24, where it is not 0. Same bits as `pool` of the whole table. `precision`: each node,
   * from the single block to the root, is packed and unpacked, in quanta from `outFirst` on, so
   * that its bits do not depend on where the plan cut the tree. So under a quantised exchange each
   * row block is pooled as a tile of its own.
   */
  foldPooled(
    out: Tensor,
    outFirst: number,
    parts: readonly PooledPart[],
    blocks: number,
    columns: number,
    lengths?: Int32Array,
    precision?: WirePrecision,
    scale?: number,
  ): void;
  /**
   * `copyColumns` with each value divided by its sample's length (B), below 2^24; 0 for length 0.
   * This makes the gradient of a mean that of a sum, for tiles that are pooled as sums.
   */
  shareColumns(
    out: Tensor,
    outFirst: number,
    from: Tensor,
    fromFirst: number,
    columns: number,
    lengths: Int32Array,
  ): void;
  /**
   * out[b, outFirst .. +columns] = from[inverse[b], fromFirst .. +columns]: copies the vectors of
   * distinct lists (U,·) to the samples that have the list; out (B,·), inverse (B). `used` (U), if
   * given: the columns that a list has, 0..columns; the other columns are not read, and are 0 in
   * `out` (jagged index select; RecD: Zhao et al., MLSys 2023, section 5).
   */
  expandColumns(
    out: Tensor,
    outFirst: number,
    from: Tensor,
    fromFirst: number,
    columns: number,
    inverse: Int32Array,
    used?: Int32Array,
  ): void;
  /**
   * out[places[i], outFirst .. +columns] = from[i, fromFirst .. +columns]: overwrites some rows of
   * out (U,·) with those of from (n,·). places (n).
   */
  placeColumns(
    out: Tensor,
    outFirst: number,
    from: Tensor,
    fromFirst: number,
    columns: number,
    places: Int32Array,
  ): void;
  /**
   * Backward of `expandColumns`: dFrom[u, fromFirst .. +columns] (U,·) = the sum of dOut[b,
   * outFirst .. +columns] over the samples b with inverse[b] = u, in their order, from 0; 0 in
   * columns that a list does not have.
   */
  dExpandColumns(
    dFrom: Tensor,
    fromFirst: number,
    dOut: Tensor,
    outFirst: number,
    columns: number,
    inverse: Int32Array,
    used?: Int32Array,
  ): void;
  /**
   * Writes from[:, fromFirst .. +columns] of (B,·) to `packedBytes` bytes (precision.ts): float32
   * unchanged; other precisions as codes (B,columns) rounded to nearest, and for int8 then the
   * exponents (B, columns/32 rounded up). Non-finite values stay non-finite: in int8 they are code
   * -128. `scale`, a power of two: float16 and the floats of 8 bits hold the values times `scale`.
   */
  packColumns(
    to: PackedAt,
    from: Tensor,
    fromFirst: number,
    columns: number,
    precision: WirePrecision,
    scale?: number,
  ): void;
  /**
   * out[:, outFirst .. +columns] of (B,·) = the columns that `packColumns` wrote; int8 code -128 is
   * NaN. Values are divided by `scale`.
   */
  unpackColumns(
    out: Tensor,
    outFirst: number,
    from: PackedAt,
    columns: number,
    precision: WirePrecision,
    scale?: number,
  ): void;
  /**
   * residual (n) += sum (n), then moves the k elements of largest size out of it: `selected`
   * receives their indices and their values rounded to the nearest bfloat16, and the residual keeps
   * the errors of this rounding. Of elements of equal size the first are taken. NaN counts as
   * larger than infinity, so that it is never kept back. 1 <= k <= n.
   */
  selectLargest(selected: Selected, residual: Tensor, sum: Tensor): void;
  /** out (n): adds each selected value to its element. */
  addSelected(out: Tensor, selected: Selected): void;
}

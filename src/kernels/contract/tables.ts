// Tables as the kernels see them: rows or a tile of rows, and the bags that look rows up.

import type { Codes, Precision } from "./precision.ts";
import type { Tensor } from "./tensor.ts";

/**
 * Most rows of a table, or of a shard: a row has 31 bits in sort keys and bags. Offsets in a
 * table's memory, row * dim, have 64.
 */
export const rowsMax = 0x7fff_ffff;

/**
 * Table-major jagged ids of T lookups in tables, and of B samples. Mostly each table has one
 * lookup. Where several features look one table up, T counts each of them, and their bags stand
 * side by side; so do their entries in lists of `Rows`, which name the same memory. 32-bit ids were
 * checked against their tables; 64-bit ids are checked by the kernel. @throws RangeError naming the
 * table and the id
 */
export interface Bags<Ids extends Int32Array | BigInt64Array = Int32Array | BigInt64Array> {
  readonly tables: number;
  readonly samples: number;
  /** (T*B+1): the ids of bag (t,b) are ids[offsets[t*B+b]] .. ids[offsets[t*B+b+1]-1]. */
  readonly offsets: Int32Array;
  readonly ids: Ids;
  /** (N): weight of each looked-up row in its bag; left out: 1. Weights get no gradient. */
  readonly weights?: Float32Array;
}

export type Pooling = "sum" | "mean";

/** Entries of a list of `Rows`, from `first` on, that are lookups in the same rows. */
export function lookupsFrom(tables: readonly Rows[], first: number): number {
  const touched = tables[first]?.touched;
  let end = first + 1;
  while (end < tables.length && tables[end]?.touched === touched) end++;
  return end - first;
}

/**
 * Rows of one table in device memory, as one lookup sees them: weights, optimizer state, and
 * `touched`. They may be a tile of the table: some of its row blocks (an aligned power of two of
 * them) and some of its column quanta. Rows and ids are relative to the tile's first. The last tile
 * may be shorter than its blocks, or empty.
 */
export interface Rows {
  readonly rows: number;
  readonly dim: number;
  readonly pooling: Pooling;
  /** Power of two. A pooled vector is a tree over blocks, each a sum in bag order. */
  readonly rowBlocks: number;
  /** Rows of a whole block. */
  readonly blockRows: number;
  /** Where the tile begins in its table, and the columns of whole rows. */
  readonly firstRow: number;
  readonly firstColumn: number;
  readonly tableDim: number;
  /** How weights are stored; arithmetic is float32. */
  readonly precision: Precision;
  /** (R,D); empty where weights are stored in fewer bits. */
  readonly weights: Tensor;
  /** (R,D): the codes of weights in fewer bits (precision.ts); else empty. */
  readonly codes: Codes;
  /** (R, D/32 rounded up): for int8 rows, one for each quantum of columns; else empty. */
  readonly exponents: Int8Array;
  /**
   * (R,W), W = stateWidth of the rule: 0, 1 (row-wise), D, D+1 (partial row-wise) or 2D; and D+1
   * more where rows are averaged.
   */
  readonly state: Tensor;
  /**
   * Whether rows have a moving average (row-average.ts): the lag (D) stands before the rule's own
   * state, the steps that it is of behind it.
   */
  readonly averaged: boolean;
  /** (R): 1 where the row is initialised: updated in a committed or running step. */
  readonly touched: Uint8Array;
  /**
   * (R): for rows that are slots of a cache, the tile's row in each slot. Random numbers for a row
   * are drawn with this number. Such rows have one row block.
   */
  readonly names?: Int32Array;
}

/** Where the rule's own state lies among the state floats of a row. */
export function ruleStateIn({ averaged, dim, state }: Rows): { first: number; width: number } {
  const width = state.shape[1] ?? 0;
  return averaged ? { first: dim, width: width - dim - 1 } : { first: 0, width };
}

/** What `Kernels.rows` reserves. */
export interface RowsSpec {
  readonly rows: number;
  readonly dim: number;
  readonly pooling: Pooling;
  readonly rowBlocks: number;
  readonly stateWidth: number;
  /** See `Rows.averaged`. @default false */
  readonly averaged?: boolean;
  /** @default rows / rowBlocks, rounded up */
  readonly blockRows?: number;
  /** @default 0 */
  readonly firstRow?: number;
  /** A multiple of 32. @default 0 */
  readonly firstColumn?: number;
  /** @default dim */
  readonly tableDim?: number;
  /** @default "float32" */
  readonly precision?: Precision;
  /** For rows that are slots of a cache: see `Rows.names`. */
  readonly names?: Int32Array;
}

/**
 * Values that the exchange completed for a tile with some of its table's columns, one per distinct
 * row of the tile, ascending.
 */
export interface RowSums {
  /** (n): means of squares from `rowMeans`, for rules that need them. */
  readonly means?: Float32Array | undefined;
  /** (n): trust ratios from `rowTrust`, for LAMB. */
  readonly trust?: Float32Array | undefined;
}

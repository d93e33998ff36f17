// Embedding tables as kernels take them: rows of a table or of a tile, and bags of lookups.

import type { Codes, Precision } from "./precision.ts";
import type { RowsMemory } from "./rows-memory.ts";
import type { Tensor } from "./tensor.ts";

/**
 * Most rows of a table, or of a shard: a row has 31 bits in sort keys and bags. Offsets in a
 * table's memory, row * dim, have 64 bits.
 */
export const rowsMax = 0x7fff_ffff;

/**
 * Table-major jagged ids of T lookups in tables, and of B samples. Mostly each table has one
 * lookup. If several features look one table up, T counts each of them, and their bags are
 * adjacent; so are their entries in lists of `Rows`, which share the memory of the rows. 32-bit ids
 * must have been checked against their tables; 64-bit ids are checked by the kernel.
 * @throws RangeError naming the table and the id
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

/** The bags of `count` lookups from lookup `first` on, in the memory of `bags`. */
export function bagsFrom(bags: Bags, first: number, count: number): Bags {
  if (count === bags.tables) return bags;
  const { samples } = bags;
  const offsets = bags.offsets.subarray(first * samples, (first + count) * samples + 1);
  return { ...bags, tables: count, offsets };
}

/** Number of consecutive entries of a list of `Rows`, from `first` on, with the same rows. */
export function lookupsFrom(tables: readonly Rows[], first: number): number {
  const touched = tables[first]?.touched;
  let end = first + 1;
  while (end < tables.length && tables[end]?.touched === touched) end++;
  return end - first;
}

/**
 * Rows of one table in device memory, for one lookup: weights, optimizer state, and `touched`. They
 * may be a tile of the table: some of its row blocks (an aligned run of a power of two) and some of
 * its column quanta. Rows and ids are relative to the tile's first row. The last tile may be
 * shorter than its blocks, or empty.
 */
export interface Rows {
  readonly rows: number;
  readonly dim: number;
  readonly pooling: Pooling;
  /** Power of two. A pooled vector is a tree over blocks, each a sum in bag order. */
  readonly rowBlocks: number;
  /** Rows of a whole block. */
  readonly blockRows: number;
  /** First row and column of the tile in its table; `tableDim`: columns of whole rows. */
  readonly firstRow: number;
  readonly firstColumn: number;
  readonly tableDim: number;
  /** Precision of stored weights; arithmetic is float32. */
  readonly precision: Precision;
  /** (R,D); empty where weights are stored in fewer bits. */
  readonly weights: Tensor;
  /** (R,D): the codes of weights in fewer bits (precision.ts); for float32 empty. */
  readonly codes: Codes;
  /** (R, D/32 rounded up): for int8 rows, one exponent per quantum of columns; else empty. */
  readonly exponents: Int8Array;
  /**
   * (R,W), W = stateWidth of the rule: 0, 1 (row-wise), D, D+1 (partial row-wise) or 2D; and D+1
   * more where rows are averaged.
   */
  readonly state: Tensor;
  /**
   * Whether rows have a moving average (row-average.ts): its lag (D) is before the rule's state,
   * its step count after it.
   */
  readonly averaged: boolean;
  /**
   * (R): an update sets it to 1. 0: the row is uninitialised, or, for a slot of a cache, equal to
   * the backing store. Cuts set further marks (src/embedding/rows/changed-rows.ts).
   */
  readonly touched: Uint8Array;
  /**
   * (R): for rows that are slots of a cache, the tile's row in each slot, by which random numbers
   * are drawn. Such rows have one row block.
   */
  readonly names?: Int32Array;
}

/** The range of the rule's state among the state floats of a row. */
export function ruleStateIn({ averaged, dim, state }: Rows): { first: number; width: number } {
  const width = state.shape[1] ?? 0;
  return averaged ? { first: dim, width: width - dim - 1 } : { first: 0, width };
}

/** The rows that `Kernels.rows` allocates. */
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
  /**
   * Memory of `rowsExtent` for the rows, whose values are taken as they are. @default memory of the
   * kernels' own, zeroed
   */
  readonly memory?: RowsMemory | undefined;
}

/**
 * The order of a batch's lookups by row, which `rowSquares` keeps for `updateRows`: sorting them
 * again would take as long. The layout is private to the implementation.
 */
export interface RowOrder {
  /** At least as many elements as the bags have ids. */
  lookups: Float64Array;
  /** The ids that `lookups` is the order of; undefined: `rowSquares` has not been called yet. */
  ids: Bags["ids"] | undefined;
}

/**
 * Whole-row values for a tile with some of its table's columns, which the exchange has completed
 * over all tiles: one per distinct row of the tile, ascending.
 */
export interface RowSums {
  /** (n): means of squares from `rowMeans`, for rules that need them. */
  readonly means?: Float32Array | undefined;
  /** (n): trust ratios from `rowTrust`, for LAMB. */
  readonly trust?: Float32Array | undefined;
}

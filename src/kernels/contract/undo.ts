// The undo log, as kernels write it: the values of rows before an update changes them.
// src/embedding/rows/undo-log.ts has the layout of the log, its two halves, and its use.

/** Bytes of a cache line; every record begins on one. */
export const undoLineBytes = 64;

/** Words before the rows of a record: tile, number of rows, lines, 0. */
export const undoHeadWords = 4;

/** Most arrays of a tile: weights, exponents, state, marks and hashes. */
export const keptArraysMax = 5;

/** The end of a log in shared memory. */
export interface UndoTail {
  readonly bytes: Uint8Array;
  /** (1) lines of `bytes` that have records: set after the records are written. */
  readonly used: Int32Array;
}

/** A tile whose rows change. */
export interface UndoneTile {
  /** The tile's number in the log. */
  readonly tile: number;
  readonly rows: number;
  /** Bit row % 32 of word row / 32: whether the log has the row. */
  readonly seen: Int32Array;
  /** The arrays with values of its rows, and the bytes of a row in each. */
  readonly arrays: readonly Uint8Array[];
  readonly rowBytes: readonly number[];
}

/** Kernels that write an undo log. */
export interface UndoKernels {
  /**
   * Appends a record for each tile: the values of those rows in `ids` that the log does not have
   * yet. Marks these rows as seen. The rows of tiles[i] are ids[ranges[2i]] ..
   * ids[ranges[2i+1]-1]. Returns false if the log is full: it is then unchanged, but rows that it
   * lacks may be marked as seen.
   */
  keepRows(
    log: UndoTail,
    tiles: readonly UndoneTile[],
    ids: Int32Array,
    ranges: Int32Array,
  ): boolean;
}

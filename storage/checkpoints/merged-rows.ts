// Merges the rows of one table from two ascending sources. If both have a row, the first wins.

import type { RowRecords } from "../../src/embedding/rows/row-records.ts";

/** A stream of rows with a current row. */
export interface RowCursor {
  /** The current row number; Infinity after the last row. */
  readonly row: number;
  /** Weights (D) of the current row, valid until the next call. */
  readonly weights: Float32Array;
  /** Optimizer state (W) of the current row, valid until the next call. */
  readonly state: Float32Array;
  next(): Promise<void>;
}

/** A cursor at the stream's first row. */
export async function cursorOf(
  records: AsyncIterable<RowRecords>,
  dim: number,
  width: number,
): Promise<RowCursor> {
  const source = records[Symbol.asyncIterator]();
  let chunk: RowRecords | undefined;
  let at = 0;
  const cursor: RowCursor = {
    get row() {
      return chunk?.rows[at] ?? Number.POSITIVE_INFINITY;
    },
    get weights() {
      return chunk?.weights.subarray(at * dim, (at + 1) * dim) ?? new Float32Array();
    },
    get state() {
      return chunk?.state.subarray(at * width, (at + 1) * width) ?? new Float32Array();
    },
    async next() {
      at++;
      while (chunk === undefined || at >= chunk.rows.length) {
        const found = await source.next();
        chunk = found.done === true ? undefined : found.value;
        at = 0;
        if (chunk === undefined) return;
      }
    },
  };
  await cursor.next();
  return cursor;
}

/** Rows of a merged chunk. */
const chunkRowsMax = 4096;

/**
 * The merged rows below `end`, in chunks. Afterwards both cursors are at their first row >= `end`.
 */
export async function* mergeUntil(
  end: number,
  first: RowCursor,
  second: RowCursor,
  { dim, width }: { dim: number; width: number },
): AsyncGenerator<RowRecords, void, undefined> {
  while (first.row < end || second.row < end) {
    const rows = new Int32Array(chunkRowsMax);
    const weights = new Float32Array(chunkRowsMax * dim);
    const state = new Float32Array(chunkRowsMax * width);
    let count = 0;
    while (count < chunkRowsMax && (first.row < end || second.row < end)) {
      const [least, other] = first.row <= second.row ? [first, second] : [second, first];
      if (least.row === other.row) await other.next();
      rows[count] = least.row;
      weights.set(least.weights, count * dim);
      state.set(least.state, count * width);
      count++;
      await least.next();
    }
    yield {
      rows: rows.subarray(0, count),
      weights: weights.subarray(0, count * dim),
      state: state.subarray(0, count * width),
    };
  }
}

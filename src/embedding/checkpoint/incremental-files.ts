// Merges the incremental files that make up a part of a checkpoint. The newest file with a row
// wins.

import { recordRowsMax } from "../rows/records-in-memory.ts";
import type { RowRecords } from "../rows/row-records.ts";
import type { RowSet } from "../rows/row-set.ts";

/** One file of a merge, and the current position in it. */
interface Cursor {
  readonly chunks: Iterator<RowRecords>;
  chunk: RowRecords | undefined;
  at: number;
}

/**
 * The rows of all files, ascending, each once, in chunks; each is valid until the next one.
 * `files`: the files, newest first, each ascending.
 */
export function* mergeFiles(files: readonly Iterable<RowRecords>[]): Generator<RowRecords> {
  if (files.length === 1) return yield* files[0] ?? [];
  const cursors = files.map((layer): Cursor => {
    return { chunks: layer[Symbol.iterator](), chunk: undefined, at: 0 };
  });
  try {
    for (const cursor of cursors) advance(cursor);
    const merged = new CopiedRows();
    for (;;) {
      while (merged.count < recordRowsMax) {
        let row = Number.POSITIVE_INFINITY;
        for (const cursor of cursors) row = Math.min(row, rowOf(cursor));
        if (row === Number.POSITIVE_INFINITY) break;
        let isTaken = false;
        for (const cursor of cursors) {
          if (cursor.chunk === undefined || rowOf(cursor) !== row) continue;
          if (!isTaken) merged.add(cursor.chunk, cursor.at);
          isTaken = true;
          step(cursor);
        }
      }
      if (merged.count === 0) return;
      yield merged.take("view");
    }
  } finally {
    for (const { chunks } of cursors) chunks.return?.();
  }
}

function rowOf({ chunk, at }: Cursor): number {
  return chunk?.rows[at] ?? Number.POSITIVE_INFINITY;
}

function step(cursor: Cursor): void {
  cursor.at++;
  if (cursor.at === cursor.chunk?.rows.length) advance(cursor);
}

function advance(cursor: Cursor): void {
  const { value, done } = cursor.chunks.next();
  cursor.chunk = done === true ? undefined : value;
  cursor.at = 0;
}

/**
 * Copies of rows of equal widths, one after the other. A row of a chunk is copied before its cursor
 * moves on, since the next chunk may overwrite the memory of this one.
 */
class CopiedRows {
  count = 0;
  #all: RowRecords = none;

  add(chunk: RowRecords, at: number): void {
    const [dim, width] = widthsOf(chunk);
    if (this.count === this.#all.rows.length) this.#grow(chunk.rows.length, dim, width);
    const { rows, weights, state } = this.#all;
    rows[this.count] = chunk.rows[at] ?? 0;
    copy(weights, this.count * dim, chunk.weights, at * dim, dim);
    copy(state, this.count * width, chunk.state, at * width, width);
    this.count++;
  }

  /** The rows copied since the last call: in memory of their own, or until the next copy. */
  take(how: "copy" | "view"): RowRecords {
    const [dim, width] = widthsOf(this.#all);
    const { count } = this;
    this.count = 0;
    if (how === "view") {
      return {
        rows: this.#all.rows.subarray(0, count),
        weights: this.#all.weights.subarray(0, count * dim),
        state: this.#all.state.subarray(0, count * width),
      };
    }
    return {
      rows: this.#all.rows.slice(0, count),
      weights: this.#all.weights.slice(0, count * dim),
      state: this.#all.state.slice(0, count * width),
    };
  }

  /** Makes room for the rows of a chunk. */
  #grow(rows: number, dim: number, width: number): void {
    const length = Math.max(64, 2 * this.count, rows);
    const grown = {
      rows: new Int32Array(length),
      weights: new Float32Array(length * dim),
      state: new Float32Array(length * width),
    };
    grown.rows.set(this.#all.rows);
    grown.weights.set(this.#all.weights);
    grown.state.set(this.#all.state);
    this.#all = grown;
  }
}

const none: RowRecords = {
  rows: new Int32Array(0),
  weights: new Float32Array(0),
  state: new Float32Array(0),
};

/** Numbers of weights and of state of a row. */
function widthsOf({ rows, weights, state }: RowRecords): [dim: number, width: number] {
  const count = Math.max(1, rows.length);
  return [weights.length / count, state.length / count];
}

function copy(
  out: Float32Array,
  outAt: number,
  from: Float32Array,
  at: number,
  count: number,
): void {
  for (let i = 0; i < count; i++) out[outAt + i] = from[at + i] ?? 0;
}

/** The records of a chunk with rows that are not in `seen`. */
export function withoutRows(chunk: RowRecords, seen: RowSet): RowRecords {
  return withRows(chunk, (row) => !seen.has(row));
}

/** The records of a chunk with the wanted rows. */
export function withRows(chunk: RowRecords, isWanted: (row: number) => boolean): RowRecords {
  const left = new CopiedRows();
  for (const [i, row] of chunk.rows.entries()) if (isWanted(row)) left.add(chunk, i);
  return left.count === chunk.rows.length ? chunk : left.take("copy");
}

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
    for (;;) {
      const taken: [RowRecords, number][] = [];
      // When a cursor moves on, its new chunk overwrites the memory of the old one.
      while (taken.length < recordRowsMax) {
        const row = Math.min(...cursors.map(rowOf));
        if (row === Number.POSITIVE_INFINITY) break;
        const of = cursors.filter((cursor) => rowOf(cursor) === row);
        const [newest] = of;
        if (newest?.chunk !== undefined) taken.push([copyOf(newest.chunk, newest.at), 0]);
        for (const cursor of of) step(cursor);
      }
      if (taken.length === 0) return;
      yield gather(taken);
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

function copyOf(chunk: RowRecords, i: number): RowRecords {
  const count = chunk.rows.length;
  const part = (values: Float32Array) =>
    values.slice((i * values.length) / count, ((i + 1) * values.length) / count);
  return {
    rows: chunk.rows.slice(i, i + 1),
    weights: part(chunk.weights),
    state: part(chunk.state),
  };
}

/** The records of a chunk with rows that are not in `seen`. */
export function withoutRows(chunk: RowRecords, seen: RowSet): RowRecords {
  return withRows(chunk, (row) => !seen.has(row));
}

/** The records of a chunk with the wanted rows. */
export function withRows(chunk: RowRecords, isWanted: (row: number) => boolean): RowRecords {
  const count = chunk.rows.length;
  const left = [...chunk.rows.keys()].filter((i) => isWanted(chunk.rows[i] ?? 0));
  if (left.length === count) return chunk;
  return gather(left.map((i) => [chunk, i]));
}

/** Copies records, each named by its chunk and index, into one chunk. All have the same width. */
function gather(places: readonly (readonly [RowRecords, number])[]): RowRecords {
  const [first] = places;
  const widthOf = (values: Float32Array | undefined) =>
    values === undefined ? 0 : values.length / (first?.[0].rows.length ?? 1);
  const [dim, width] = [widthOf(first?.[0].weights), widthOf(first?.[0].state)];
  const rows = new Int32Array(places.length);
  const weights = new Float32Array(places.length * dim);
  const state = new Float32Array(places.length * width);
  for (const [to, [from, i]] of places.entries()) {
    rows[to] = from.rows[i] ?? 0;
    weights.set(from.weights.subarray(i * dim, (i + 1) * dim), to * dim);
    state.set(from.state.subarray(i * width, (i + 1) * width), to * width);
  }
  return { rows, weights, state };
}

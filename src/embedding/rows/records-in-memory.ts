// Converts between rows in memory and checkpoint records: reads rows as records, and overwrites
// rows with records, whose extent may differ from the shard's.

import type { Kernels, Rows, StateShape } from "../../kernels/contract/kernels.ts";
import type { Shard } from "../tables/shards.ts";
import type { Extent, RowRecords } from "./row-records.ts";

/** Most rows of a chunk: large enough for efficient disk I/O, small compared with a table. */
export const recordRowsMax = 4096;

/** The rows of a shard, or of a range of its rows, in memory. */
export interface HeldRows {
  readonly shard: Pick<Shard, "firstRow" | "rows" | "firstColumn" | "columns">;
  readonly rows: Rows;
  readonly state: StateShape;
}

/**
 * The initialised rows of a shard in memory, in chunks: rows with marks 1..`lastMark`
 * (changed-rows.ts).
 */
export function* recordsOf(
  kernels: Kernels,
  rows: Rows,
  lastMark = Number.POSITIVE_INFINITY,
): Generator<RowRecords> {
  const width = rows.state.shape[1] ?? 0;
  for (let first = 0; first < rows.rows; first += recordRowsMax) {
    const count = Math.min(recordRowsMax, rows.rows - first);
    const all = new Int32Array(count);
    let found = 0;
    for (let i = 0; i < count; i++) {
      const mark = rows.touched[first + i] ?? 0;
      if (mark > 0 && mark <= lastMark) all[found++] = i;
    }
    if (found === 0) continue;
    const born = all.subarray(0, found);
    yield {
      rows: born.map((i) => rows.firstRow + first + i),
      weights: pick(kernels, kernels.readRows(rows, first, count), rows.dim, born),
      state: pick(kernels, kernels.read(kernels.part(rows.state, first, count)), width, born),
    };
  }
}

/** The rows with indices `born` of all (n, width). */
function pick(kernels: Kernels, all: Float32Array, width: number, born: Int32Array): Float32Array {
  const { length } = born;
  if (length * width === all.length) return all;
  const out = new Float32Array(length * width);
  kernels.moveRecords(bytesOf(out), undefined, bytesOf(all), born, length, 4 * width);
  return out;
}

function bytesOf({ buffer, byteOffset, byteLength }: Float32Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

/**
 * Overwrites rows with those rows and columns of the records that the shard has. Their `touched`
 * becomes `mark`.
 */
export function restoreRecords(
  kernels: Kernels,
  { shard, rows, state }: HeldRows,
  extent: Extent,
  records: RowRecords,
  mark: number,
): void {
  const first = Math.max(shard.firstColumn, extent.firstColumn);
  const end = Math.min(shard.firstColumn + shard.columns, extent.firstColumn + extent.columns);
  if (first >= end) return;
  const stretch: Stretch = {
    columns: end - first,
    to: { width: rows.dim, first: first - shard.firstColumn },
    from: { width: extent.columns, first: first - extent.firstColumn },
  };
  for (const { from, count } of runsOf(records.rows, shard)) {
    const row = (records.rows[from] ?? 0) - shard.firstRow;
    // Relative to the first row of the run. Rows in its gaps are read and written as they are.
    const at = records.rows.subarray(from, from + count).map((of) => of - shard.firstRow - row);
    const span = (at.at(-1) ?? 0) + 1;
    const weights = kernels.readRows(rows, row, span);
    overlay(kernels, weights, records.weights, from, at, stretch);
    kernels.writeRows(rows, row, weights);
    const part = kernels.part(rows.state, row, span);
    const values = kernels.read(part);
    for (const own of stateStretches(state, stretch)) {
      overlay(kernels, values, records.state, from, at, own);
    }
    kernels.write(part, values);
    for (const own of at) rows.touched[row + own] = mark;
  }
}

/** The same column range of each per-element state, and the row's own state. */
function stateStretches(
  { perElement, perRow }: StateShape,
  { columns, to, from }: Stretch,
): Stretch[] {
  const [toWidth, fromWidth] = [to.width, from.width].map((dim) => perElement * dim + perRow);
  const place = (columns: number, toFirst: number, fromFirst: number): Stretch => ({
    columns,
    to: { width: toWidth ?? 0, first: toFirst },
    from: { width: fromWidth ?? 0, first: fromFirst },
  });
  const ofElements = Array.from({ length: perElement }, (_, copy) =>
    place(columns, copy * to.width + to.first, copy * from.width + from.first),
  );
  return [...ofElements, place(perRow, perElement * to.width, perElement * from.width)];
}

/** Corresponding columns of two arrays of rows. */
interface Stretch {
  readonly columns: number;
  readonly to: { readonly width: number; readonly first: number };
  readonly from: { readonly width: number; readonly first: number };
}

/** Copies a column range of records `first`.. of `from` into rows `at` of `to`. */
function overlay(
  kernels: Kernels,
  to: Float32Array,
  from: Float32Array,
  first: number,
  at: Int32Array,
  stretch: Stretch,
): void {
  const { columns } = stretch;
  const { length } = at;
  if (columns === 0) return; // A rule without state.
  if (columns === stretch.to.width && columns === stretch.from.width) {
    const own = from.subarray(first * columns, (first + length) * columns);
    kernels.moveRecords(bytesOf(to), at, bytesOf(own), undefined, length, 4 * columns);
    return;
  }
  for (let i = 0; i < length; i++) {
    const start = (first + i) * stretch.from.width + stretch.from.first;
    const values = from.subarray(start, start + columns);
    to.set(values, (at[i] ?? 0) * stretch.to.width + stretch.to.first);
  }
}

/** Rows that a run may leave out: copying these costs less than the calls of another run. */
const gapRowsMax = 16;

/** Runs of rows that the shard has and that are close to each other, each to be copied at once. */
function* runsOf(
  rows: Int32Array,
  { firstRow, rows: count }: HeldRows["shard"],
): Generator<{ from: number; count: number }> {
  const isHere = (i: number) => {
    const row = (rows[i] ?? -1) - firstRow;
    return row >= 0 && row < count;
  };
  const isNext = (i: number) => (rows[i] ?? 0) <= (rows[i - 1] ?? 0) + 1 + gapRowsMax;
  let from = 0;
  while (from < rows.length) {
    let end = from + 1;
    if (isHere(from)) {
      while (end < rows.length && isHere(end) && isNext(end)) end++;
      yield { from, count: end - from };
    }
    from = end;
  }
}

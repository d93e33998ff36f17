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
    const born: number[] = [];
    for (let i = 0; i < count; i++) {
      const mark = rows.touched[first + i] ?? 0;
      if (mark > 0 && mark <= lastMark) born.push(i);
    }
    if (born.length === 0) continue;
    yield {
      rows: Int32Array.from(born, (i) => rows.firstRow + first + i),
      weights: pick(kernels.readRows(rows, first, count), rows.dim, born),
      state: pick(kernels.read(kernels.part(rows.state, first, count)), width, born),
    };
  }
}

/** The rows with indices `born` of all (n, width). */
function pick(all: Float32Array, width: number, born: readonly number[]): Float32Array {
  if (born.length * width === all.length) return all;
  const out = new Float32Array(born.length * width);
  for (const [to, i] of born.entries()) {
    out.set(all.subarray(i * width, (i + 1) * width), to * width);
  }
  return out;
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
    const weights = kernels.readRows(rows, row, count);
    overlay(weights, records.weights, from, count, stretch);
    kernels.writeRows(rows, row, weights);
    const part = kernels.part(rows.state, row, count);
    const values = kernels.read(part);
    for (const own of stateStretches(state, stretch)) {
      overlay(values, records.state, from, count, own);
    }
    kernels.write(part, values);
    rows.touched.fill(mark, row, row + count);
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

/** Copies a column range of rows `at`..`at`+`count`-1 of `from` into the rows of `to`. */
function overlay(
  to: Float32Array,
  from: Float32Array,
  at: number,
  count: number,
  stretch: Stretch,
): void {
  for (let i = 0; i < count; i++) {
    const start = (at + i) * stretch.from.width + stretch.from.first;
    const values = from.subarray(start, start + stretch.columns);
    to.set(values, i * stretch.to.width + stretch.to.first);
  }
}

/** Runs of consecutive rows that the shard has, so that each run is copied at once. */
function* runsOf(
  rows: Int32Array,
  { firstRow, rows: count }: HeldRows["shard"],
): Generator<{ from: number; count: number }> {
  const isHere = (i: number) => {
    const row = (rows[i] ?? -1) - firstRow;
    return row >= 0 && row < count;
  };
  let from = 0;
  while (from < rows.length) {
    let end = from + 1;
    if (isHere(from)) {
      while (end < rows.length && isHere(end) && rows[end] === (rows[end - 1] ?? 0) + 1) end++;
      yield { from, count: end - from };
    }
    from = end;
  }
}

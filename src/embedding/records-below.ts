// Records of a shard behind a cache: what a checkpoint takes from below device memory, and puts
// there. Between two batches only.

import type { Kernels, Rows, StateShape } from "../kernels/kernels.ts";
import { arriveRows, type CachedShard, reserveTile } from "./cached-shard.ts";
import { recordRowsMax, restoreRecords } from "./records-in-memory.ts";
import type { Extent, RowRecords } from "./row-store.ts";
import type { RowsBelow } from "./rows-below.ts";

const ordinals = Int32Array.from({ length: recordRowsMax }, (_, i) => i);

/** All records of the shard, ascending. What its cache holds was sent down before. */
export async function* recordsBelow(
  kernels: Kernels,
  cached: CachedShard,
  below: RowsBelow,
): AsyncGenerator<RowRecords> {
  const room = reserveTile(kernels, cached.tile, recordRowsMax);
  for await (const { rows, records } of below.scan(cached.shard.shard)) {
    for (let first = 0; first < rows.length; first += recordRowsMax) {
      const some = rows.subarray(first, first + recordRowsMax);
      const at = ordinals.subarray(0, some.length);
      const bytes = records.subarray(first * cached.recordBytes);
      kernels.scatterRecords(room, at, bytes, at);
      yield {
        rows: some.map((row) => row + cached.shard.firstRow),
        weights: kernels.readRows(room, 0, some.length),
        state: kernels.read(kernels.part(room.state, 0, some.length)),
      };
    }
  }
}

/** Puts records of a checkpoint below: those rows that the shard has, and of those its columns. */
export async function restoreBelow(
  kernels: Kernels,
  cached: CachedShard,
  below: RowsBelow,
  state: StateShape,
  extent: Extent,
  { rows, weights, state: states }: RowRecords,
): Promise<void> {
  const { shard } = cached;
  const from = lowerBound(rows, shard.firstRow);
  const end = lowerBound(rows, shard.firstRow + shard.rows);
  const width = rows.length === 0 ? 0 : states.length / rows.length;
  const room = reserveTile(kernels, cached.tile, Math.min(recordRowsMax, end - from));
  for (let first = from; first < end; first += recordRowsMax) {
    const last = Math.min(end, first + recordRowsMax);
    const own = rows.slice(first, last).map((row) => row - shard.firstRow);
    const places = ordinals.subarray(0, own.length);
    await fetchRows(kernels, cached, below, room, own, extent);
    const held = { shard: { ...shard, firstRow: 0, rows: own.length }, rows: room, state };
    restoreRecords(kernels, held, extent, {
      rows: places,
      weights: weights.subarray(first * extent.columns, last * extent.columns),
      state: states.subarray(first * width, last * width),
    });
    await below.open();
    const down = below.down(shard.shard, own.length);
    down.rows.set(own);
    kernels.gatherRecords(down.records, room, places);
    below.post();
  }
}

/** Where a part has not all columns of the shard, the others are those of an earlier part. */
async function fetchRows(
  kernels: Kernels,
  cached: CachedShard,
  below: RowsBelow,
  room: Rows,
  rows: Int32Array,
  { firstColumn, columns }: Extent,
): Promise<void> {
  const { shard } = cached;
  const end = shard.firstColumn + shard.columns;
  if (firstColumn <= shard.firstColumn && end <= firstColumn + columns) return;
  await below.open();
  below.up(shard.shard, rows);
  below.post();
  const [found] = await below.answer();
  const missed = ordinals.subarray(0, rows.length);
  if (found) arriveRows(kernels, { ...cached, rows: room }, { missed, missedRows: rows }, found);
  below.close();
}

/** The first place in ascending `rows` whose row is not below `row`. */
function lowerBound(rows: Int32Array, row: number): number {
  let [low, high] = [0, rows.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((rows[middle] ?? 0) < row) low = middle + 1;
    else high = middle;
  }
  return low;
}

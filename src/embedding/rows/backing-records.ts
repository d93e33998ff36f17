// Checkpoint I/O of a cached shard: reads its records from the backing store for a cut, and writes
// restored records to the store. Only between two batches.

import type { Kernels, Rows, StateShape } from "../../kernels/contract/kernels.ts";
import { lowerBound } from "../../ports/lower-bound.ts";
import type { BackingStore } from "./backing-store.ts";
import { arriveRows, type CachedShard, reserveTile, rowsOfRecords } from "./cached-shard.ts";
import { marks } from "./changed-rows.ts";
import { addSum } from "./digest.ts";
import { recordRowsMax, restoreRecords } from "./records-in-memory.ts";
import type { Extent, RowRecords, TakenRows } from "./row-records.ts";
import { createRowSet, type RowSet } from "./row-set.ts";

const ordinals = Int32Array.from({ length: recordRowsMax }, (_, i) => i);

/** All records of the shard, ascending. The cache must have been flushed. */
export async function* backingRecords(
  kernels: Kernels,
  cached: CachedShard,
  backing: BackingStore,
): AsyncGenerator<RowRecords> {
  for await (const { rows, records } of backing.scan(cached.shard.shard)) {
    for (let first = 0; first < rows.length; first += recordRowsMax) {
      const some = rows.subarray(first, first + recordRowsMax);
      yield rowsOfRecords(kernels, cached, some, records.subarray(first * cached.recordBytes));
    }
  }
}

/**
 * Yields the records of the shard for a cut, ascending, and marks their rows saved. The cache must
 * have been flushed.
 */
export async function* cutBacking(
  kernels: Kernels,
  cached: CachedShard,
  backing: BackingStore,
  taken: TakenRows,
): AsyncGenerator<RowRecords> {
  const { saved, shard } = cached;
  const { hashing, sums, sinceCut, sinceBaseline } = saved;
  const isWhole = taken === "whole";
  if (isWhole) sums.fill(0);
  else for (const rows of chunksOf(sinceCut)) for (const row of rows) sinceBaseline.add(row);
  const some = taken === "sinceCut" ? sinceCut : sinceBaseline;
  const chunks = isWhole
    ? backingRecords(kernels, cached, backing)
    : recordsAt(kernels, cached, backing, some);
  for await (const chunk of chunks) {
    for (let i = 0; i < chunk.rows.length; i++) {
      const isChanged = isWhole || sinceCut.has((chunk.rows[i] ?? 0) - shard.firstRow);
      if (isChanged) addSum(sums, hashing.of(chunk, i));
    }
    yield chunk;
  }
  noteSaved(kernels, cached);
  saved.sinceCut = createRowSet();
  if (isWhole) saved.sinceBaseline = createRowSet();
}

/** The records of some rows of the shard, ascending. */
async function* recordsAt(
  kernels: Kernels,
  cached: CachedShard,
  backing: BackingStore,
  some: RowSet,
): AsyncGenerator<RowRecords> {
  for (const rows of chunksOf(some)) {
    await backing.open();
    await backing.up(cached.shard.shard, rows);
    backing.post();
    const [answer] = await backing.answer();
    if (answer === undefined) throw new RangeError(`No answer for ${cached.shard.name}`);
    const chunk = rowsOfRecords(kernels, cached, rows, answer.records);
    backing.close();
    yield chunk;
  }
}

/** The rows of a set, ascending. Each chunk is valid until the next. */
function* chunksOf(set: RowSet): Generator<Int32Array> {
  const room = new Int32Array(recordRowsMax);
  for (let from = 0; ; ) {
    const rows = room.subarray(0, set.list(from, room));
    if (rows.length === 0) return;
    yield rows;
    from = (rows.at(-1) ?? 0) + 1;
  }
}

/** Sets the hashes of changed rows that are still in device memory to the cut's values (C3). */
function noteSaved(kernels: Kernels, { rows, cache, saved, shard }: CachedShard): void {
  const { hashing, hashes, sinceCut } = saved;
  if (hashes.length === 0) return;
  for (let first = 0; first < rows.rows; first += recordRowsMax) {
    const some = cache.rowOf.subarray(first, first + recordRowsMax);
    if (!some.some((row) => row >= 0 && sinceCut.has(row))) continue;
    const chunk = {
      rows: some.map((row) => row + shard.firstRow),
      weights: kernels.readRows(rows, first, some.length),
      state: kernels.read(kernels.part(rows.state, first, some.length)),
    };
    for (const [i, row] of some.entries()) {
      if (row < 0 || !sinceCut.has(row)) continue;
      hashes.set(hashing.of(chunk, i), (first + i) * hashing.words);
    }
  }
}

/** The records of a checkpoint, as passed to `RowStore.restore`. */
interface Restored {
  readonly state: StateShape;
  readonly extent: Extent;
  readonly records: RowRecords;
  readonly isDifferent: boolean;
}

/** Writes those rows and columns of a checkpoint's records that the shard has to the store. */
export async function restoreBacking(
  kernels: Kernels,
  cached: CachedShard,
  backing: BackingStore,
  { state, extent, records, isDifferent }: Restored,
): Promise<void> {
  const { shard, saved } = cached;
  const { rows, weights, state: states } = records;
  const from = lowerBound(rows, shard.firstRow);
  const end = lowerBound(rows, shard.firstRow + shard.rows);
  const width = rows.length === 0 ? 0 : states.length / rows.length;
  const room = reserveTile(kernels, cached.tile, Math.min(recordRowsMax, end - from));
  for (let first = from; first < end; first += recordRowsMax) {
    const last = Math.min(end, first + recordRowsMax);
    const own = rows.slice(first, last).map((row) => row - shard.firstRow);
    if (extent.firstColumn === shard.firstColumn && extent.columns === shard.columns) {
      for (let i = first; i < last; i++) addSum(saved.sums, saved.hashing.of(records, i));
      if (isDifferent) for (const row of own) saved.sinceBaseline.add(row);
    }
    const places = ordinals.subarray(0, own.length);
    await fetchRows(kernels, cached, backing, room, own, extent);
    const held = { shard: { ...shard, firstRow: 0, rows: own.length }, rows: room, state };
    const part = {
      rows: places,
      weights: weights.subarray(first * extent.columns, last * extent.columns),
      state: states.subarray(first * width, last * width),
    };
    restoreRecords(kernels, held, extent, part, marks.changed);
    await backing.open();
    await backing.down(shard.shard, own.length, (down, at) => {
      const end = at + down.rows.length;
      down.rows.set(own.subarray(at, end));
      kernels.gatherRecords(down.records, room, places.subarray(at, end));
    });
    backing.post();
  }
}

/** If a part lacks columns of the shard, reads the columns that earlier parts have written. */
async function fetchRows(
  kernels: Kernels,
  cached: CachedShard,
  backing: BackingStore,
  room: Rows,
  rows: Int32Array,
  { firstColumn, columns }: Extent,
): Promise<void> {
  const { shard } = cached;
  const end = shard.firstColumn + shard.columns;
  if (firstColumn <= shard.firstColumn && end <= firstColumn + columns) return;
  await backing.open();
  await backing.up(shard.shard, rows);
  backing.post();
  const [found] = await backing.answer();
  const missed = ordinals.subarray(0, rows.length);
  if (found) arriveRows(kernels, { ...cached, rows: room }, { missed, missedRows: rows }, found);
  backing.close();
}

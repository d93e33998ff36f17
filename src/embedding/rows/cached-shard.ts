// One shard behind a cache: which of its rows are in device memory, and in which slot. The kernels
// work on slots of the cache as on rows of a table. This file maps ids to slots, writes evicted
// rows to the backing store, and reads missing rows from it or initialises them. No bit of the
// model depends on the tier of a row (law 4).
//
//   stage      ids → slots; evicted rows are written, missing rows are requested
//   arrive     received rows are put in their slots; rows without a record are initialised
//   release    the batch is done: rows in spare slots are written and leave the cache
//
// Invariants
//   C1. A slot that a batch in flight needs is pinned: its row is not evicted.
//   C2. `touched` of a slot is set if its row differs from the backing store. Such a row is written
//       to the store before the slot is reused.
//   C3. Where hashes are kept, the hash of a slot is its row's hash at the last cut, or 0 if the
//       row was uninitialised then. Hashes of rows in `sinceCut` are never read again
//       (changed-rows.ts).
//   C4. A batch finds a slot for each of its rows: before it is staged, there are as many free
//       spare slots as it has ids. Usual batches have them from the start; for longer ones the
//       cache grows, and rows keep their slots.

import type { Kernels, Rows } from "../../kernels/contract/kernels.ts";
import type { Precision } from "../../kernels/contract/precision.ts";
import { recordBytesOf } from "../../kernels/contract/records.ts";
import {
  createRowCache,
  type Placed,
  type PlacedMemory,
  type RowCache,
  withSpares,
} from "../../kernels/contract/row-cache.ts";
import type { Key } from "../../ports/random.ts";
import type { Shard } from "../tables/shards.ts";
import type { BackingStore, FetchedRecords } from "./backing-store.ts";
import type { CacheShape } from "./cache-sizes.ts";
import type { SavedRows } from "./changed-rows.ts";
import { subtractSum } from "./digest.ts";
import { recordRowsMax } from "./records-in-memory.ts";
import { createReuseSampler, type ReuseSampler } from "./reuse-distance.ts";
import type { RowRecords } from "./row-records.ts";

/** The properties common to all rows of a shard. */
export interface CacheTile extends Omit<Parameters<Kernels["rows"]>[0], "rows" | "blockRows"> {
  readonly precision: Precision;
}

/** Parameters of row initialisation: a uniform draw for weights, a constant for state. */
export interface Birth {
  readonly key: Key;
  readonly purpose: number;
  readonly scale: number;
  /** The initial value of optimizer state. */
  readonly state: number;
}

/** Counts of a cache's accesses and misses, which only grow. */
export interface CacheCounts {
  lookups: number;
  /** Distinct rows, summed over batches; `missed`: the distinct rows that were not cached. */
  distinct: number;
  missed: number;
  /** Distinct rows that found no free slot in their set, and the lookups of these rows. */
  conflicts: number;
  conflictLookups: number;
  /** Rows that left the cache: evicted for another row, or from a spare slot after their batch. */
  left: number;
}

export interface CachedShard {
  /** The range of its lookups among those of its row store. */
  readonly at: { readonly first: number; readonly count: number };
  readonly shard: Shard;
  readonly tile: CacheTile;
  /** (slots): the cached rows, one per slot. It and the index are replaced when they grow. C4 */
  rows: Rows;
  cache: RowCache;
  readonly recordBytes: number;
  readonly counts: CacheCounts;
  readonly reuse: ReuseSampler;
  readonly birth: Birth;
  /** Which rows the checkpoints have saved, and the digest of the shard. */
  readonly saved: SavedRows;
  /** Memory in which records are decoded to rows. */
  readonly room: Rows;
}

export function createCachedShard(options: {
  readonly kernels: Kernels;
  readonly at: { readonly first: number; readonly count: number };
  readonly shard: Shard;
  readonly tile: CacheTile;
  readonly birth: Birth;
  readonly shape: CacheShape;
  /** Rows of the whole table. */
  readonly tableRows: number;
  savedFor(places: number): SavedRows;
}): CachedShard {
  const { kernels, shard, tile, shape, tableRows, savedFor, ...rest } = options;
  const cache = createRowCache({ ...shape, rows: shard.rows });
  const rows = { ...reserveTile(kernels, tile, cache.rowOf.length), names: cache.rowOf };
  const counts = { lookups: 0, distinct: 0, missed: 0, conflicts: 0, conflictLookups: 0, left: 0 };
  const recordBytes = recordBytesOf(tile, tile.stateWidth);
  const reuse = createReuseSampler({ rows: shard.rows, scale: tableRows / shard.rows });
  const saved = savedFor(rows.rows);
  const room = reserveTile(kernels, tile, Math.min(recordRowsMax, shard.rows));
  return { ...rest, shard, tile, rows, cache, recordBytes, counts, reuse, saved, room };
}

/** Allocates memory for some rows of a shard. */
export function reserveTile(kernels: Kernels, tile: CacheTile, rows: number): Rows {
  return kernels.rows({ ...tile, rows });
}

/**
 * Makes room for the rows of a batch with `lookups` ids. Returns whether the rows have new memory.
 * C4
 */
export function makeRoom(kernels: Kernels, cached: CachedShard, lookups: number): boolean {
  const { cache, rows: from, tile, shard, recordBytes, saved } = cached;
  const used = cache.spares - (cache.head[0] ?? 0);
  const needed = Math.min(shard.rows, used + lookups);
  if (needed <= cache.spares) return false;
  const spares = Math.min(shard.rows, Math.max(needed, cache.spares + (cache.spares >> 1)));
  const grown = withSpares(cache, spares);
  const rows = { ...reserveTile(kernels, tile, grown.rowOf.length), names: grown.rowOf };
  const records = new Uint8Array(recordRowsMax * recordBytes);
  for (let first = 0; first < cache.rowOf.length; first += recordRowsMax) {
    const chunk = cache.rowOf.subarray(first, first + recordRowsMax);
    const places = ordinals.subarray(0, chunk.length).filter((i) => (chunk[i] ?? -1) >= 0);
    for (let i = 0; i < places.length; i++) places[i] = (places[i] ?? 0) + first;
    kernels.gatherRecords(records.subarray(0, places.length * recordBytes), from, places);
    kernels.scatterRecords(rows, places, records, ordinals.subarray(0, places.length));
  }
  rows.touched.set(from.touched);
  if (saved.hashes.length > 0) {
    const hashes = new Uint32Array(rows.rows * saved.hashing.words);
    hashes.set(saved.hashes);
    saved.hashes = hashes;
  }
  cached.rows = rows;
  cached.cache = grown;
  return true;
}

/** Rows of a batch that were assigned to slots; missing rows may still be in flight. */
export interface StagedRows {
  /** Grow-only memory, reused from batch to batch. */
  readonly memory: PlacedMemory;
  placed: Placed;
}

/**
 * Writes the slots of a batch's rows `ids` to `places`. Missing rows get slots that `arriveRows`
 * fills later. Adds writes of the evicted rows and reads of the missing rows to the open request.
 */
export async function stageRows(
  kernels: Kernels,
  cached: CachedShard,
  backing: BackingStore,
  batch: { readonly places: Int32Array; readonly ids: Int32Array; readonly tick: number },
  memory: PlacedMemory,
): Promise<StagedRows> {
  const { cache, rows, counts } = cached;
  const placed = kernels.placeRows(cache, batch.places, batch.ids, batch.tick, memory);
  await sendDown(kernels, cached, backing, placed.evicted, placed.evictedRows); // C2
  for (const place of placed.missed) rows.touched[place] = 0;
  if (placed.missed.length > 0) await backing.up(cached.shard.shard, placed.missedRows);
  counts.left += placed.evictedRows.length;
  cached.reuse.note(cache.rowOf, placed.placed);
  return { memory, placed };
}

/**
 * Counts the rows of a batch when they have arrived, not when they are requested: batches are
 * requested ahead, and the hits in host memory are known only with the response.
 */
export function countArrived({ counts }: CachedShard, placed: Placed): void {
  counts.lookups += placed.lookups;
  counts.distinct += placed.distinct;
  counts.missed += placed.missed.length;
  counts.conflicts += placed.conflicts;
  counts.conflictLookups += placed.conflictLookups;
}

/** Puts received records into the slots of missing rows. Rows without a record are initialised. */
export function arriveRows(
  kernels: Kernels,
  { rows, birth }: Pick<CachedShard, "rows" | "birth">,
  { missed, missedRows }: Pick<Placed, "missed" | "missedRows">,
  { found, records }: FetchedRecords,
): void {
  const [came, born] = [indicesOf(found, 1), indicesOf(found, 0)];
  kernels.scatterRecords(rows, pick(missed, came), records, came);
  const { key, purpose, scale, state } = birth;
  kernels.bornAt(rows, pick(missed, born), pick(missedRows, born), key, purpose, scale, state);
}

/** Stores the hashes of rows that were read from the backing store, as of the last cut. C3 */
export function noteArrived(
  kernels: Kernels,
  cached: CachedShard,
  { missed, missedRows }: Pick<Placed, "missed" | "missedRows">,
  { found, records }: FetchedRecords,
): void {
  const { saved, recordBytes } = cached;
  const { hashing, hashes } = saved;
  if (hashes.length === 0) return;
  for (let first = 0; first < missed.length; first += recordRowsMax) {
    const rows = missedRows.subarray(first, first + recordRowsMax);
    const bytes = records.subarray(first * recordBytes);
    const chunk = rowsOfRecords(kernels, cached, rows, bytes);
    for (let i = 0; i < rows.length; i++) {
      const at = (missed[first + i] ?? 0) * hashing.words;
      if (found[first + i] === 1) hashes.set(hashing.of(chunk, i), at);
      else hashes.fill(0, at, at + hashing.words);
    }
  }
}

const ordinals = Int32Array.from({ length: recordRowsMax }, (_, i) => i);

/** Decodes the records of n <= recordRowsMax rows, given relative to the shard's first row. */
export function rowsOfRecords(
  kernels: Kernels,
  { room, shard }: Pick<CachedShard, "room" | "shard">,
  rows: Int32Array,
  records: Uint8Array,
): RowRecords {
  const at = ordinals.subarray(0, rows.length);
  kernels.scatterRecords(room, at, records, at);
  return {
    rows: rows.map((row) => row + shard.firstRow),
    weights: kernels.readRows(room, 0, rows.length),
    state: kernels.read(kernels.part(room.state, 0, rows.length)),
  };
}

/**
 * Subtracts a changed row's hash from the sums at its first write since the last cut (S1 of
 * changed-rows.ts).
 */
function noteChanged({ sums, hashes, sinceCut }: SavedRows, row: number, place: number): void {
  if (hashes.length === 0 || sinceCut.has(row)) return;
  sinceCut.add(row);
  subtractSum(sums, hashes, place);
}

/** Unpins the rows of a finished batch. Returns the spare slots, which must be emptied now. */
export function releaseRows(
  kernels: Kernels,
  { cache }: CachedShard,
  { placed }: StagedRows,
): Int32Array {
  return kernels.releaseRows(cache, placed.placed);
}

/** Empties spare slots: adds writes of their changed rows to the open request. */
export async function emptySpares(
  kernels: Kernels,
  cached: CachedShard,
  backing: BackingStore,
  spares: Int32Array,
): Promise<void> {
  await sendDown(kernels, cached, backing, spares);
  kernels.freeSpares(cached.cache, spares);
  cached.counts.left += spares.length;
}

/** The slots of rows that differ from the backing store. Only when no batch is in flight. */
export function changedPlaces({ rows }: CachedShard): Int32Array {
  return indicesOf(rows.touched, 1);
}

/**
 * Adds writes of the rows in the slots `places` that differ from the backing store to the open
 * request. `rowOf`: the row in each of these slots; left out: as in the cache's index.
 */
export async function sendDown(
  kernels: Kernels,
  { shard, cache, rows, recordBytes, saved }: CachedShard,
  backing: BackingStore,
  places: Int32Array,
  rowOf: Int32Array = pick(cache.rowOf, places),
): Promise<void> {
  const changed = indicesOf(
    places.map((place) => rows.touched[place] ?? 0),
    1,
  );
  await backing.down(shard.shard, changed.length, (down, first) => {
    const some = changed.subarray(first, first + down.rows.length);
    down.rows.set(pick(rowOf, some));
    const leaving = pick(places, some);
    kernels.gatherRecords(down.records.subarray(0, some.length * recordBytes), rows, leaving);
    for (const [i, place] of leaving.entries()) {
      rows.touched[place] = 0;
      noteChanged(saved, down.rows[i] ?? 0, place);
    }
  });
}

/** The indices at which `values` is `value`, ascending. */
function indicesOf(values: Uint8Array | Int32Array, value: number): Int32Array {
  let count = 0;
  for (const one of values) if (one === value) count++;
  const indices = new Int32Array(count);
  let next = 0;
  for (let i = 0; i < values.length; i++) if (values[i] === value) indices[next++] = i;
  return indices;
}

/** The elements of `from` at some indices. */
function pick(from: Int32Array, places: Int32Array): Int32Array {
  const picked = new Int32Array(places.length);
  for (let i = 0; i < places.length; i++) picked[i] = from[places[i] ?? 0] ?? 0;
  return picked;
}

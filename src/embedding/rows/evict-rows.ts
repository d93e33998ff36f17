// Reinitialises rows of a shard after their ids were evicted. On every tier, in the next checkpoint
// and in the digest the rows are then uninitialised, as if they had never been used. Only when no
// batch is in flight.

import type { Kernels, Rows } from "../../kernels/contract/kernels.ts";
import { findPlace } from "../../kernels/contract/row-cache.ts";
import type { BackingStore } from "./backing-store.ts";
import { type Birth, type CachedShard, rowsOfRecords } from "./cached-shard.ts";
import type { SavedRows } from "./changed-rows.ts";
import { subtractSum } from "./digest.ts";
import { recordRowsMax } from "./records-in-memory.ts";

/** Evicts rows of a shard that is all in memory; rows are relative to its first. */
export function evictInMemory(
  kernels: Kernels,
  { rows, saved, birth }: { rows: Rows; saved: SavedRows; birth: Birth },
  evicted: Int32Array,
): void {
  for (const row of evicted) evictHash(saved, row);
  reinitialise(kernels, rows, birth, evicted, evicted);
}

/** Evicts rows of a cached shard; rows are relative to its first, ascending. */
export async function evictFromBacking(
  kernels: Kernels,
  cached: CachedShard,
  backing: BackingStore,
  evicted: Int32Array,
): Promise<void> {
  const { shard, cache, rows, birth, saved } = cached;
  for (let first = 0; first < evicted.length; first += recordRowsMax) {
    const some = evicted.subarray(first, first + recordRowsMax);
    const places = some.map((row) => findPlace(cache, row));
    await evictHashesFromBacking(
      kernels,
      cached,
      backing,
      some.filter((_, i) => (places[i] ?? -1) < 0),
    );
    const here = some.filter((_, i) => (places[i] ?? -1) >= 0);
    const placesHere = places.filter((place) => place >= 0);
    for (const [i, row] of here.entries()) {
      // A row that was written to the store since the last cut had its hash subtracted then (S1).
      if (saved.sinceCut.has(row)) clearHash(saved, placesHere[i] ?? 0);
      else evictHash(saved, placesHere[i] ?? 0);
    }
    reinitialise(kernels, rows, birth, placesHere, here);
    for (const row of some) {
      saved.sinceCut.delete(row);
      saved.sinceBaseline.delete(row);
    }
    await backing.open();
    backing.drop(shard.shard, some);
    backing.post();
  }
}

/** Subtracts the hashes of rows that are only in the backing store. */
async function evictHashesFromBacking(
  kernels: Kernels,
  cached: CachedShard,
  backing: BackingStore,
  rows: Int32Array,
): Promise<void> {
  const { saved, shard } = cached;
  const unsaved = rows.filter((row) => !saved.sinceCut.has(row));
  if (saved.hashes.length === 0 || unsaved.length === 0) return;
  await backing.open();
  await backing.up(shard.shard, unsaved);
  backing.post();
  const [answer] = await backing.answer();
  if (answer === undefined)
    throw new RangeError(`The backing store returned no rows of ${shard.name}`);
  const chunk = rowsOfRecords(kernels, cached, unsaved, answer.records);
  for (let i = 0; i < unsaved.length; i++) {
    if (answer.found[i] === 1) subtractSum(saved.sums, saved.hashing.of(chunk, i), 0);
  }
  backing.close();
}

/** Sets the rows `ids` in the slots `places` to their initial values. */
function reinitialise(
  kernels: Kernels,
  rows: Rows,
  { key, purpose, scale, state }: Birth,
  places: Int32Array,
  ids: Int32Array,
): void {
  kernels.bornAt(rows, places, ids, key, purpose, scale, state);
}

/** Subtracts the hash that the row at a slot had at the last cut from the digest. */
function evictHash(saved: SavedRows, place: number): void {
  subtractSum(saved.sums, saved.hashes, place);
  clearHash(saved, place);
}

function clearHash({ hashes, hashing }: SavedRows, place: number): void {
  hashes.fill(0, place * hashing.words, (place + 1) * hashing.words);
}

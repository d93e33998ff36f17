// Hit rates of the cache with 32 ways, and of a fully associative cache.

import { Zipf } from "../../src/data/synthetic/zipf.ts";
import type { Kernels } from "../../src/kernels/contract/kernels.ts";
import { type CachePolicy, cacheWays } from "../../src/kernels/contract/row-cache.ts";
import { RandomStream } from "../../src/ports/random.ts";

/** Rows of the table that is cached. */
export const cachedRows = 100_000;

/** Lookups of a batch: few, so that repeated ids within it hide no misses. */
const batch = 200;

/** Rows of accesses, drawn by popularity; another `shift` makes other rows popular. */
export function accesses(exponent: number, count: number, seed: number, shift = 0): Int32Array {
  const stream = new RandomStream(seed, 13);
  const zipf = new Zipf(cachedRows, exponent);
  const draw = () => (zipf.draw(() => stream.uniform()) + shift) % cachedRows;
  return Int32Array.from({ length: count }, draw);
}

/** Sets of a cache that holds `load` of the rows. */
const setsOf = (load: number): number => Math.ceil((load * cachedRows) / cacheWays);

/** Share of lookups from access `from` on that hit. A batch fetches each missing row once. */
export function hitRate(
  kernels: Kernels,
  policy: CachePolicy,
  load: number,
  rows: Int32Array,
  from = 0,
): number {
  const cache = kernels.rowCache({ policy, sets: setsOf(load), spares: batch, rows: cachedRows });
  const places = new Int32Array(batch);
  let missed = 0;
  for (let first = 0; first < rows.length; first += batch) {
    const ids = rows.subarray(first, first + batch);
    const made = kernels.placeRows(cache, places.subarray(0, ids.length), ids, 1 + first / batch);
    if (first >= from) missed += made.missed.length;
    kernels.freeSpares(cache, kernels.releaseRows(cache, made.placed));
  }
  return 1 - missed / (rows.length - from);
}

/** The hit rate of a fully associative LRU cache, access by access. */
export function associativeRate(load: number, rows: Int32Array): number {
  const places = setsOf(load) * cacheWays;
  const held = new Set<number>(); // In order of their last access.
  let hits = 0;
  for (const row of rows) {
    if (held.delete(row)) hits++;
    else if (held.size === places) held.delete(held.values().next().value ?? -1);
    held.add(row);
  }
  return hits / rows.length;
}

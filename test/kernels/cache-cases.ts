// Cases of the kernels' suite: which cache slot a row gets, and which row it evicts.

import type { ExecutionContext } from "ava";
import type { Kernels, Placed, RowCache } from "../../src/kernels/contract/kernels.ts";
import { cacheWays, hashRow } from "../../src/kernels/contract/row-cache.ts";
import { RandomStream } from "../../src/ports/random.ts";
import type { Cases } from "./cases.ts";

/** A cache of one set. */
function oneSet(k: Kernels, policy: "lru" | "lfu", spares: number): RowCache {
  return k.rowCache({ policy, sets: 1, spares, rows: 1000 });
}

/** Places rows; returns their slots and the report of the call. */
function place(k: Kernels, cache: RowCache, tick: number, ids: readonly number[]) {
  const places = new Int32Array(ids.length);
  const placed = k.placeRows(cache, places, Int32Array.from(ids), tick);
  return { places: [...places], placed };
}

/** Places rows and releases them at once. */
function ask(k: Kernels, cache: RowCache, tick: number, ids: readonly number[]): Placed {
  const { placed } = place(k, cache, tick, ids);
  k.freeSpares(cache, k.releaseRows(cache, placed.placed));
  return placed;
}

const upTo = (count: number): number[] => Array.from({ length: count }, (_, i) => i);

export const caches: Cases = {
  "rows take empty ways, repeated ids one place, and one pin": (t, k) => {
    const cache = oneSet(k, "lru", 0);
    const { places, placed } = place(k, cache, 1, [7, 7, 9, 7]);
    t.deepEqual(places, [0, 0, 1, 0]);
    t.deepEqual([...placed.placed], [0, 1]);
    t.deepEqual([...placed.missed], [0, 1]);
    t.deepEqual([...placed.missedRows], [7, 9]);
    t.is(placed.evicted.length, 0);
    t.deepEqual([placed.lookups, placed.distinct, placed.conflicts], [4, 2, 0]);
    t.deepEqual([...cache.pins.subarray(0, 3)], [1, 1, 0]);
    const second = place(k, cache, 2, [3, 9]);
    t.deepEqual(second.places, [2, 1]);
    t.deepEqual([...second.placed.placed], [1, 2]);
    t.deepEqual([...second.placed.missedRows], [3]);
    t.deepEqual([...cache.pins.subarray(0, 3)], [1, 2, 1]);
  },

  "LRU takes the way that was asked for longest ago, of several the lowest": (t, k) => {
    const cache = oneSet(k, "lru", 0);
    ask(k, cache, 1, upTo(32));
    ask(k, cache, 2, [0, 2]);
    const third = ask(k, cache, 3, [40, 41]);
    t.deepEqual([...third.evicted], [1, 3]);
    t.deepEqual([...third.evictedRows], [1, 3]);
    t.deepEqual([...third.missedRows], [40, 41]);
    t.deepEqual([...cache.rowOf.subarray(0, 5)], [0, 40, 2, 41, 4]);
  },

  "LFU takes the row that was asked for least, unless the new one was asked for less": (t, k) => {
    const cache = oneSet(k, "lfu", 4);
    ask(k, cache, 1, [...upTo(32), ...upTo(32).filter((row) => row !== 3)]);
    t.deepEqual([...ask(k, cache, 2, [50]).evictedRows], [3]);
    ask(k, cache, 3, [50]);
    const cold = ask(k, cache, 4, [60]);
    t.deepEqual([cold.evicted.length, cold.conflicts, cold.conflictLookups], [0, 1, 1]);
    // Row 61 has the most requests, so it is placed first; then 60, which was requested before. Row
    // 62 gets a spare slot.
    const { places, placed } = place(k, cache, 5, [62, 60, 61, 61, 61]);
    t.deepEqual([...placed.missedRows], [61, 60, 62]);
    t.deepEqual([...placed.evictedRows], [0, 1]);
    t.deepEqual(places, [places[0], 1, 0, 0, 0]);
    t.true((places[0] ?? 0) >= cacheWays);
  },

  "a row whose set is pinned takes a spare place, until it is released": (t, k) => {
    const cache = oneSet(k, "lru", 2);
    const first = place(k, cache, 1, upTo(32));
    const second = place(k, cache, 2, [100, 5, 101, 100]);
    t.deepEqual(second.places, [32, 5, 33, 32]);
    t.deepEqual([second.placed.conflicts, second.placed.conflictLookups], [2, 3]);
    const third = place(k, cache, 3, [101]);
    t.deepEqual([third.places[0], third.placed.missed.length], [33, 0]);
    t.deepEqual([...k.releaseRows(cache, second.placed.placed)], [32]);
    t.is(cache.rowOf[32], 100);
    k.freeSpares(cache, Int32Array.of(32));
    t.is(cache.rowOf[32], -1);
    k.releaseRows(cache, first.placed.placed);
    t.deepEqual(place(k, cache, 4, [100]).places, [0]);
    t.deepEqual([...k.releaseRows(cache, third.placed.placed)], [33]);
  },

  "a row without a place, and calls out of order, are refused": (t, k) => {
    const cache = oneSet(k, "lru", 1);
    const { placed } = place(k, cache, 5, upTo(33));
    const message = /Expected a spare place for each row .* all 1 are in use/;
    t.throws(() => place(k, cache, 6, [200]), { instanceOf: RangeError, message });
    t.throws(() => place(k, cache, 6, [0]), {
      message: "Expected a tick above 6 and below 2^31, got 6",
    });
    t.throws(() => k.placeRows(cache, new Int32Array(1), new Int32Array(2), 7), {
      message: /Expected ids of placeRows/,
    });
    t.throws(() => k.freeSpares(cache, Int32Array.of(32)), { message: /has no pins, got 32/ });
    k.freeSpares(cache, k.releaseRows(cache, placed.placed));
    t.throws(() => k.freeSpares(cache, Int32Array.of(32)), { message: /has no pins, got 32/ });
    t.throws(() => k.releaseRows(cache, placed.placed), { message: /with pins, got 0/ });
  },

  "pinned rows stay, every row is where it was said to be, and only what was listed moved": (
    t,
    k,
  ) => {
    for (let seed = 1; seed <= 12; seed++) follow(t, k, new RandomStream(seed, 11));
  },
};

const sorted = (values: Iterable<number>): number[] => [...values].sort((a, b) => a - b);

/**
 * Uses one cache at random for 60 ticks, with several batches in flight, and checks its reports.
 */
function follow(t: ExecutionContext, k: Kernels, stream: RandomStream): void {
  const policy = stream.below(2) === 0 ? "lru" : "lfu";
  const [sets, rows] = [1 + stream.below(5), 100 + stream.below(2000)];
  const cache = k.rowCache({ policy, sets, spares: 250, rows });
  const where = new Map<number, number>();
  const inFlight: Int32Array[] = [];
  for (let tick = 1; tick <= 60; tick++) {
    const popular = 1 + stream.below(rows);
    const ids = Int32Array.from({ length: stream.below(60) }, () => stream.below(popular));
    const places = new Int32Array(ids.length);
    const pinned = new Set(inFlight.flatMap((placed) => [...placed]));
    const before = Int32Array.from(cache.rowOf);
    const made = k.placeRows(cache, places, ids, tick);
    for (const [i, gone] of made.evicted.entries()) {
      t.false(pinned.has(gone) || made.placed.indexOf(gone) < made.distinct - made.missed.length);
      t.is(before[gone], made.evictedRows[i]);
      t.true(where.delete(before[gone] ?? -1));
    }
    for (const [i, filled] of made.missed.entries()) {
      const row = made.missedRows[i] ?? -1;
      t.false(where.has(row));
      t.true(filled >= sets * cacheWays || Math.floor(filled / cacheWays) === hashRow(row) % sets);
      where.set(row, filled);
    }
    t.deepEqual(
      [...ids].map((row) => where.get(row)),
      [...places],
    );
    t.deepEqual(sorted(made.placed), sorted(new Set(places)));
    inFlight.push(made.placed);
    if (stream.below(4) > 0 || inFlight.length > 3) {
      const free = k.releaseRows(cache, inFlight.shift() ?? new Int32Array());
      for (const gone of free) where.delete(cache.rowOf[gone] ?? -1);
      k.freeSpares(cache, free);
    }
    t.is(cache.rowOf.filter((row) => row >= 0).length, where.size);
    t.true([...where].every(([row, at]) => cache.rowOf[at] === row));
  }
}

import test from "ava";
import { accesses, associativeRate, cachedRows, hitRate } from "../../bench/memory/hit-rates.ts";
import type { Kernels } from "../../src/kernels/contract/kernels.ts";
import { type CachePolicy, createPlacedMemory } from "../../src/kernels/contract/row-cache.ts";
import { openKernels } from "../../src/kernels/index.ts";
import { resetIsa } from "../../src/kernels/native/native.ts";
import { RandomStream } from "../../src/ports/random.ts";
import { nativeKernels, testIf } from "../helpers/needs.ts";
import { rounds } from "../helpers/thinned.ts";
import { eachIsa } from "./instruction-sets.ts";

/** The results of a random use of a cache, and its final state. */
function traceOf(k: Kernels, policy: CachePolicy, seed: number): number[][] {
  const stream = new RandomStream(seed, 12);
  const rows = 50 + stream.below(5000);
  const cache = k.rowCache({ policy, sets: 1 + stream.below(9), spares: 700, rows });
  const inFlight: Int32Array[] = [];
  const trace: number[][] = [];
  for (let tick = 3; tick < 40; tick += 1 + stream.below(2)) {
    const popular = 1 + stream.below(rows);
    const ids = Int32Array.from({ length: stream.below(300) }, () => stream.below(popular));
    const places = new Int32Array(ids.length);
    const made = k.placeRows(cache, places, ids, tick);
    const lists = [made.placed, made.missed, made.missedRows, made.evicted, made.evictedRows];
    trace.push([...places], ...lists.map((list) => [...list]));
    trace.push([made.lookups, made.distinct, made.conflicts, made.conflictLookups]);
    inFlight.push(made.placed);
    if (inFlight.length < 1 + stream.below(2)) continue;
    const free = k.releaseRows(cache, inFlight.shift() ?? new Int32Array());
    trace.push([...free]);
    k.freeSpares(cache, free);
  }
  const { rowOf, stamps, pins, counts, spareTable, spareFree, head } = cache;
  const left = [rowOf, stamps, pins, counts, spareTable, spareFree, head];
  return [...trace, ...left.map((list) => [...list])];
}

testIf(nativeKernels).serial(
  "every instruction set places rows like the reference, and leaves the same cache",
  (t) => {
    const reference = openKernels("reference");
    for (const policy of ["lru", "lfu"] as const) {
      for (let seed = 1; seed <= rounds("seeds of a row cache", 2, 10); seed++) {
        const expected = traceOf(reference, policy, seed);
        eachIsa(t, (native, isa) => {
          t.deepEqual(traceOf(native, policy, seed), expected, `${isa} ${policy}, seed ${seed}`);
        });
      }
    }
    resetIsa();
  },
);

test("the memory of a call grows, and is reused", (t) => {
  const k = openKernels("auto");
  const cache = k.rowCache({ policy: "lru", sets: 4, spares: 0, rows: 100 });
  const memory = createPlacedMemory();
  const place = (tick: number, ids: Int32Array) =>
    k.placeRows(cache, new Int32Array(ids.length), ids, tick, memory);
  k.releaseRows(cache, place(1, Int32Array.of(1, 2)).placed);
  const first = place(
    2,
    Int32Array.from({ length: 9 }, (_, i) => i),
  );
  t.deepEqual([...first.missedRows], [0, 3, 4, 5, 6, 7, 8]);
  const { words } = memory;
  k.releaseRows(cache, first.placed);
  t.is(place(3, Int32Array.of(50)).placed.buffer, words.buffer);
});

// Hit rates of a prototype's fully associative cache, which 32 ways approach: 300,000 accesses to
// 100,000 rows.
for (const [exponent, load, known] of [
  [0.8, 0.05, 0.366],
  [1.05, 0.2, 0.834],
] as const) {
  test(`32 ways are within a point of a fully associative LRU's hit rate: Zipf ${exponent}`, (t) => {
    const ids = accesses(exponent, 300_000, 1);
    const k = openKernels("auto");
    const rate = hitRate(k, "lru", load, ids);
    const associative = associativeRate(load, ids);
    t.log(`${rate.toFixed(4)}, fully associative ${associative.toFixed(4)}`);
    t.true(Math.abs(rate - associative) < 0.01);
    t.true(Math.abs(rate - known) < 0.01, `${rate}, known ${known}`);
  });
}

test("LFU hits more than LRU if popularity is constant, and less after it has shifted", (t) => {
  const k = openKernels("auto");
  const steady = accesses(0.8, 300_000, 2);
  const [lru, lfu] = [hitRate(k, "lru", 0.05, steady), hitRate(k, "lfu", 0.05, steady)];
  t.true(lfu >= lru, `LFU ${lfu}, LRU ${lru}`);
  const shifted = new Int32Array(400_000);
  shifted.set(steady);
  shifted.set(accesses(0.8, 100_000, 3, cachedRows / 2), steady.length);
  const [lruAfter, lfuAfter] = [
    hitRate(k, "lru", 0.05, shifted, steady.length),
    hitRate(k, "lfu", 0.05, shifted, steady.length),
  ];
  t.true(lruAfter >= lfuAfter, `LRU ${lruAfter}, LFU ${lfuAfter}`);
  t.log(
    `LFU ${lfu.toFixed(3)}, LRU ${lru.toFixed(3)}; after ${lfuAfter.toFixed(3)}, ${lruAfter.toFixed(3)}`,
  );
});

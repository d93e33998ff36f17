// Question: how much slower is a lookup in the slots of a cache than in a table, and what does it
// cost to find the slots? All rows are cached; both lookups read memory of the same size, on one
// thread.

import type { Bags, Kernels, RowCache } from "../../src/kernels/contract/kernels.ts";
import {
  type CachePolicy,
  cacheWays,
  createPlacedMemory,
} from "../../src/kernels/contract/row-cache.ts";
import { openKernels } from "../../src/kernels/index.ts";
import { RandomStream } from "../../src/ports/random.ts";
import { type Measurement, together } from "../bench.ts";
import { type BenchRow, fastest, rowOf } from "../row.ts";

const rounds = 9;
const roundSeconds = 0.25;
const dim = 64;
/** Bags of a pass, and ids of each: their rows exceed the machine's caches many times. */
const samples = 16_384;
const length = 64;
const lookups = samples * length;
/** One of this many rows of the table is in memory. */
const cachedShare = 10;

/** Measures lookups in a table and in a cache of `gib` gibibytes, and probes of its index. */
export function hbmMeasurement(gib: number): Measurement {
  const names = ["lookup", "probe.lru", "probe.lfu"].map((what) => `hbm.${what}`);
  return together(names, 20 * gib + 4 * rounds * roundSeconds, () => hbmRows(gib));
}

function hbmRows(gib: number): BenchRow[] {
  const kernels = openKernels("native");
  const sets = Math.floor((gib * 2 ** 30) / (4 * dim * cacheWays));
  const rows = sets * cacheWays;
  const table = kernels.rows({ rows, dim, pooling: "sum", rowBlocks: 1, stateWidth: 0 });
  kernels.fill(table.weights, 0.5);
  const out = kernels.tensor([samples, dim]);
  const plain = randomRows(rows, lookups, 1);
  const [lru, lfu] = [startProbe(kernels, "lru", sets), startProbe(kernels, "lfu", sets)];
  const cached = { ...table, names: lru.cache.rowOf.subarray(0, rows) };
  const passes = {
    plain: () => kernels.pool(out, [table], bagsOf(plain), 0, samples),
    lookup: () => kernels.pool(out, [cached], bagsOf(lru.places), 0, samples),
    lru: lru.probe,
    lfu: lfu.probe,
  };
  const rates = { plain: [], lookup: [], lru: [], lfu: [] } as Record<
    keyof typeof passes,
    number[]
  >;
  for (let round = 0; round < rounds; round++) {
    for (const name of ["plain", "lookup", "lru", "lfu"] as const) {
      rates[name].push(fastest(lookups, roundSeconds, passes[name]) / 1e6);
    }
  }
  const row = (name: string, limitIs: string, ours: number[], limits: number[]) =>
    rowOf({ name: `hbm.${name}`, unit: "Mrows/s", limitIs }, ours, limits);
  return [
    row("lookup", "the plain table", rates.lookup, rates.plain),
    row("probe.lru", "the lookup of the places", rates.lru, rates.lookup),
    row("probe.lfu", "the lookup of the places", rates.lfu, rates.lookup),
  ];
}

/** A full cache, ids of cached rows, and a probe that finds their slots as for one batch. */
function startProbe(kernels: Kernels, policy: CachePolicy, sets: number) {
  const cache = fullCache(kernels, policy, sets);
  const held = sets * cacheWays;
  const ids = randomRows(held, lookups, 2).map((place) => cache.rowOf[place] ?? 0);
  const places = new Int32Array(lookups);
  const memory = createPlacedMemory();
  let tick = cache.head[1] ?? 0;
  const probe = () => {
    tick++;
    const { placed, missed } = kernels.placeRows(cache, places, ids, tick, memory);
    if (missed.length > 0) throw new Error(`Expected all rows cached; ${missed.length} missed`);
    kernels.releaseRows(cache, placed);
  };
  probe();
  return { cache, places, probe };
}

/** A cache without an empty way. */
function fullCache(kernels: Kernels, policy: CachePolicy, sets: number): RowCache {
  const held = sets * cacheWays;
  const rows = cachedShare * held;
  const cache = kernels.rowCache({ policy, sets, spares: lookups, rows });
  const memory = createPlacedMemory();
  const places = new Int32Array(lookups);
  for (let tick = 1; cache.rowOf.subarray(0, held).includes(-1); tick++) {
    const ids = Int32Array.from({ length: lookups }, (_, i) => ((tick - 1) * lookups + i) % rows);
    const { placed } = kernels.placeRows(cache, places, ids, tick, memory);
    kernels.freeSpares(cache, kernels.releaseRows(cache, placed));
  }
  return cache;
}

function randomRows(rows: number, count: number, seed: number): Int32Array {
  const stream = new RandomStream(seed, 7);
  return Int32Array.from({ length: count }, () => stream.word() % rows);
}

function bagsOf(ids: Int32Array): Bags {
  const offsets = Int32Array.from({ length: samples + 1 }, (_, i) => i * length);
  return { tables: 1, samples, offsets, ids };
}

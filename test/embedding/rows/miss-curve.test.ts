// Miss-ratio curves, against reuse distances found by sorting, and against a real cache.

import test from "ava";
import { Zipf } from "../../../src/data/synthetic/zipf.ts";
import { curveSizes, missCurveOf } from "../../../src/embedding/rows/miss-curve.ts";
import { createReuseSampler } from "../../../src/embedding/rows/reuse-distance.ts";
import { cacheWays, hashRow } from "../../../src/kernels/contract/row-cache.ts";
import { openKernels } from "../../../src/kernels/index.ts";
import { type MissPoint, missRatioAt } from "../../../src/planner/cost/miss-curve.ts";
import { RandomStream } from "../../../src/ports/random.ts";

type Batches = readonly (readonly number[])[];

const rows = 20_000;

/** Batches of distinct rows drawn by Zipf's law, scattered over the table. */
function zipfBatches(zipf: number, batches = 60, draws = 2000): Batches {
  const sampler = new Zipf(rows, zipf);
  const stream = new RandomStream(5, 1, 100 * zipf);
  const draw = () => (sampler.draw(() => stream.uniform()) * 7919) % rows;
  return Array.from({ length: batches }, () => [...new Set(Array.from({ length: draws }, draw))]);
}

/** A repeated scan of every fourth row: a cache smaller than the scan has no hits. */
const scan: Batches = Array.from({ length: 60 }, (_, batch) =>
  Array.from({ length: 500 }, (_, i) => 4 * ((500 * batch + i) % (rows / 4))),
);

/**
 * The exact miss ratio of each size, from distances found by sorting all rows before each batch;
 * cached.
 */
function exactMisses(batches: Batches): (size: number) => number {
  const known = exact.get(batches) ?? missesBySorting(batches);
  exact.set(batches, known);
  return known;
}

const exact = new Map<Batches, (size: number) => number>();

function missesBySorting(batches: Batches): (size: number) => number {
  const seen = new Map<number, number>();
  const distances: number[] = [];
  for (const [tick, batch] of batches.entries()) {
    const latestFirst = [...seen].sort(([a, s], [b, t]) => t - s || hashRow(b) - hashRow(a));
    const rank = new Map(latestFirst.map(([row], i) => [row, i + 1]));
    for (const row of batch) distances.push(rank.get(row) ?? Infinity);
    for (const row of batch) seen.set(row, tick);
  }
  return (size) => distances.filter((one) => one > size).length / distances.length;
}

function sampledCurve(batches: Batches, options: { rate?: number; rowsMax?: number }): MissPoint[] {
  const sampler = createReuseSampler({ rows, ...options });
  for (const batch of batches) {
    sampler.note(Int32Array.from(batch), Int32Array.from(batch.keys()));
  }
  return missCurveOf(sampler.counts);
}

const patterns: Record<string, Batches> = {
  "Zipf 0.6": zipfBatches(0.6),
  "Zipf 1.05": zipfBatches(1.05),
  "a scan": scan,
};

for (const [name, batches] of Object.entries(patterns)) {
  test(`${name}: a curve of all rows is exact at every size`, (t) => {
    const missesAt = exactMisses(batches);
    const curve = sampledCurve(batches, { rate: 1, rowsMax: 32_768 });
    t.true(curve.length > 10);
    for (const [i, { rows: size, missRatio }] of curve.entries()) {
      t.is(size, curveSizes[i] ?? 0);
      t.true(Math.abs(missRatio - missesAt(size)) < 1e-12, `${size}`);
    }
    t.true(Math.abs(missRatioAt(curve, 2 * rows) - missesAt(2 * rows)) < 1e-12);
    t.is(missRatioAt(curve, 0), 1);
  });

  test(`${name}: a sampled curve is within two points, with little memory`, (t) => {
    const missesAt = exactMisses(batches);
    for (const options of [{ rate: 1 / 8 }, { rate: 1, rowsMax: 2048 }, {}]) {
      const curve = sampledCurve(batches, options);
      for (const size of [2000, 3000, 4000, 6000, 8000, 12_000, 20_000]) {
        // A scan's miss ratio drops at one size; near it, a small error in size is large in ratio.
        if (batches === scan && size > 4000 && size < 6200) continue;
        const off = Math.abs(missRatioAt(curve, size) - missesAt(size));
        t.true(off < 0.02, `${JSON.stringify(options)}, ${size} rows: off by ${off}`);
      }
    }
  });
}

// A cache little larger than a batch also has conflicts: rows of the current batch cannot be
// evicted.
test("an LRU cache has the hit rate that its curve predicts", (t) => {
  const kernels = openKernels("auto");
  for (const zipf of [0.6, 1.05]) {
    const batches = zipfBatches(zipf);
    const curve = sampledCurve(batches, {});
    for (const sets of [128, 192, 256]) {
      const cache = kernels.rowCache({ policy: "lru", sets, spares: 4000, rows });
      let [distinct, missed] = [0, 0];
      for (const [tick, batch] of batches.entries()) {
        const ids = Int32Array.from(batch);
        const placed = kernels.placeRows(cache, ids.slice(), ids, tick + 1);
        distinct += placed.distinct;
        missed += placed.missed.length;
        kernels.freeSpares(cache, kernels.releaseRows(cache, placed.placed));
      }
      const off = missed / distinct - missRatioAt(curve, sets * cacheWays);
      t.true(Math.abs(off) < 0.02, `Zipf ${zipf}, ${sets} sets: off by ${off}`);
    }
  }
});

test("counts of shards add up to the curve of their table", (t) => {
  const batches = zipfBatches(0.8);
  const whole = sampledCurve(batches, { rate: 1, rowsMax: 32_768 });
  const halves = [0, 1].map((half) => {
    const sampler = createReuseSampler({ rows: rows / 2, scale: 2, rate: 1, rowsMax: 32_768 });
    for (const batch of batches) {
      const own = batch.filter((row) => (row < rows / 2 ? 0 : 1) === half);
      sampler.note(Int32Array.from(own), Int32Array.from(own.keys()));
    }
    return sampler.counts;
  });
  const sum = missCurveOf(
    (halves[0] ?? new Float64Array()).map((n, i) => n + (halves[1]?.[i] ?? 0)),
  );
  for (const size of [1000, 4000, 12_000]) {
    t.true(Math.abs(missRatioAt(sum, size) - missRatioAt(whole, size)) < 0.02, `${size}`);
  }
});

test("without an access the curve is empty, and every lookup misses", (t) => {
  const { counts } = createReuseSampler({ rows });
  t.deepEqual(missCurveOf(counts), []);
  t.is(missRatioAt([], 1000), 1);
});

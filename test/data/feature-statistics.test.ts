// The statistics of each feature that writing a cache collects, against exact counts.

import { join } from "node:path";
import test from "ava";
import { DistinctSample, reuseBins } from "../../src/data/cache/distinct-sample.ts";
import { StatisticsCollector, windowSamplesMax } from "../../src/data/cache/feature-statistics.ts";
import { idCounter, plainCounter } from "../../src/data/cache/id-counts.ts";
import { findCache } from "../../src/data/cache/prepare-cache.ts";
import { mix32, mix64Low } from "../../src/data/murmur-hash.ts";
import { dataOptions, syntheticOptions } from "../../src/data/options.ts";
import { Sample } from "../../src/data/sample.ts";
import { csv, synthetic } from "../../src/data/sources.ts";
import { Zipf } from "../../src/data/synthetic/zipf.ts";
import { checkOptions } from "../../src/ports/check-options.ts";
import { RandomStream } from "../../src/ports/random.ts";
import { prepare, startDirectory } from "./data-files.ts";

/** Distinct ids in bins of (0, 1], (1, 2], (2, 4], …, by a map of every id. */
function bruteForce(ids: readonly number[]): number[] {
  const counts = new Map<number, number>();
  for (const id of ids) counts.set(id, (counts.get(id) ?? 0) + 1);
  const bins = new Array<number>(reuseBins).fill(0);
  for (const count of counts.values()) {
    let bin = 0;
    while (bin < reuseBins - 1 && count > 2 ** bin) bin++;
    bins[bin] = (bins[bin] ?? 0) + 1;
  }
  return bins;
}

function sampleOf(ids: readonly number[]): DistinctSample {
  const sample = new DistinctSample();
  sample.add(Int32Array.from(ids, mix32), 0, ids.length, true);
  return sample;
}

test("distinct ids are exact up to 2,048, and estimated to three standard errors beyond", (t) => {
  for (const count of [0, 1, 10, 1000, 2047, 2060, 10_000, 100_000, 500_000]) {
    for (const first of [0, 1_000_000_007]) {
      const [narrow, wide] = [new DistinctSample(), new DistinctSample()];
      const ids = Array.from({ length: count }, (_, i) => first + i);
      const hashes = Int32Array.from(ids, mix32);
      for (let repeat = 0; repeat < 2; repeat++) narrow.add(hashes, 0, count, true);
      // Few distinct lower halves.
      wide.add(
        Int32Array.from(ids, (id) => mix64Low(id & 15, id >>> 4)),
        0,
        count,
        true,
      );
      const most = count > 2047 ? 0.094 * count : 0;
      for (const found of [narrow.distinct(false), wide.distinct(true)]) {
        t.true(Math.abs(found - count) <= most, `${found} of ${count} ids from ${first}`);
      }
    }
  }
});

test("few distinct ids have exactly the bins of a brute-force count", (t) => {
  const random = new RandomStream(5, 1);
  const zipf = new Zipf(1900, 1.3);
  const ids = Array.from({ length: 150_000 }, () => zipf.draw(() => random.uniform()));
  const edges = [1, 2, 3, 4, 5, 8, 9, 32_768, 32_769].flatMap((times, i) => {
    return new Array<number>(times).fill(1_000_000 + i);
  });
  const reuse = sampleOf([...ids, ...edges]).reuse();
  t.deepEqual(reuse, bruteForce([...ids, ...edges]));
  t.true(reuse.filter((bin) => bin > 0).length > 14, "nearly all bins have ids");
});

test("the addon counts ids as the TypeScript code does, in pieces of any size", (t) => {
  const random = new RandomStream(9, 1);
  for (const [below, draws] of [
    [100, 5000],
    [3000, 40_000],
    [2 ** 32, 60_000],
  ] as const) {
    const ids = Int32Array.from({ length: draws }, () => Math.floor(random.uniform() * below));
    const counters = [idCounter(), plainCounter];
    const samples = counters.map((counter) => new DistinctSample(counter));
    const runs = counters.map(() => new Float64Array(64));
    for (let at = 0; at < draws; ) {
      const end = Math.min(draws, at + 1 + random.below(900));
      const areHashes = random.below(4) === 0;
      for (const [i, counter] of counters.entries()) {
        samples[i]?.add(ids, at, end, areHashes);
        counter.countRuns(runs[i] ?? new Float64Array(0), ids, at, end, 64 / (1.5 * below));
      }
      at = end;
    }
    const found = samples.map((sample) => [sample.distinct(false), sample.reuse()]);
    t.deepEqual(found[0], found[1]);
    t.deepEqual(runs[0], runs[1]);
    const inRuns = runs[0]?.reduce((sum, count) => sum + count, 0) ?? 0;
    t.true(inRuns > draws / 4, `${inRuns} of ${draws} ids lie in runs`);
  }
});

test("a sample of many distinct ids has the reuse bins of all of them", (t) => {
  const random = new RandomStream(6, 1);
  for (const [exponent, draws] of [
    [0, 300_000],
    [1.05, 600_000],
  ] as const) {
    const zipf = new Zipf(200_000, exponent);
    const ids = Array.from({ length: draws }, () => zipf.draw(() => random.uniform()));
    const [reuse, exact] = [sampleOf(ids).reuse(), bruteForce(ids)];
    const sumOf = (bins: readonly number[]) => bins.reduce((sum, bin) => sum + bin, 0);
    const all = sumOf(exact);
    t.true(all > 50_000, "too many ids for an exact count");
    t.true(Math.abs(sumOf(reuse) / all - 1) < 0.094, `${sumOf(reuse)} of ${all}`);
    for (const [bin, count] of exact.entries()) {
      const share = (count - (reuse[bin] ?? 0)) / all;
      t.true(Math.abs(share) < 0.03, `bin ${bin}: ${reuse[bin]}, not ${count}`);
    }
  }
});

test("sums, means and longest bags are exact, and reuse is counted in a window", (t) => {
  const collector = new StatisticsCollector([false, true, false]);
  const sample = new Sample({ dense: 0, features: 3 });
  const samples = windowSamplesMax + 1000;
  let idsSum = 0;
  for (let i = 0; i < samples; i++) {
    sample.clear();
    for (let n = 0; n < i % 4; n++) sample.push(0, n);
    // Few distinct lower halves: the upper ones distinguish the ids.
    sample.push(1, i & 7, 1, i >>> 3);
    idsSum += i % 4;
    collector.add(sample);
  }
  const [bags, wide, empty] = collector.finish();
  t.like(bags, { idsSum, idsMean: idsSum / samples, idsMax: 3, distinctIds: 3 });
  t.is(bags?.window.samples, windowSamplesMax);
  t.is(bags?.window.ids, (windowSamplesMax * 3) / 2);
  // Id 2 occurs 16,384 times, id 1 twice and id 0 three times as often.
  t.deepEqual(bags?.window.reuse, [...new Array<number>(14).fill(0), 1, 1, 1]);
  t.like(wide, { idsSum: samples, idsMean: 1, idsMax: 1 });
  t.true(Math.abs((wide?.distinctIds ?? 0) / samples - 1) < 0.094, `${wide?.distinctIds}`);
  t.like(empty, { idsSum: 0, idsMean: 0, idsMax: 0, distinctIds: 0 });
  t.deepEqual(empty?.window.reuse, new Array<number>(reuseBins).fill(0));
});

test("ids are counted by their position in the table, over all samples", (t) => {
  const collector = new StatisticsCollector([false, true, false], [640, 640, 100]);
  const sample = new Sample({ dense: 0, features: 3 });
  const samples = windowSamplesMax + 4000;
  for (let i = 0; i < samples; i++) {
    sample.clear();
    // Ids after the window differ from those in it: three quarters of all ids fall into the last
    // run of rows.
    for (const id of i < samples / 4 ? [5] : [639]) sample.push(0, id);
    sample.push(1, i, 1, 0);
    // Runs of two rows; ids beyond the rows are not counted.
    for (const id of [0, 1, 99, 1000, -1]) sample.push(2, id);
    collector.add(sample);
  }
  const [narrow, wide, short] = collector.finish();
  t.is(narrow?.idShares?.length, 64);
  t.deepEqual([narrow?.idShares?.[0], narrow?.idShares?.[63]], [0.25, 0.75]);
  t.is(wide?.idShares, undefined);
  t.deepEqual([short?.idShares?.[0], short?.idShares?.[49]], [2 / 3, 1 / 3]);
});

test("a cache has the statistics of its samples", async (t) => {
  const cache = join(startDirectory(t), "cache");
  const tables = [
    { name: "a", rows: 5000 },
    { name: "b", rows: 9, idBits: 64 as const },
  ];
  const data = synthetic({ samples: 2000, batchSize: 8, idsPerBag: { min: 1, max: 4 }, cache });
  const options = checkOptions(syntheticOptions, data);
  t.is(findCache(options, tables), undefined);
  const gone = checkOptions(dataOptions, csv("gone.csv", { label: "y", batchSize: 8, cache }));
  t.is(findCache(gone, tables), undefined);
  const report = await prepare(data, tables);
  const { path, ...meta } = report;
  t.deepEqual(findCache(options, tables), { path, ...meta });
  t.is(meta.statistics?.length, 2);
  const [a, b] = meta.statistics ?? [];
  t.true(Math.abs((a?.idsMean ?? 0) - 2.5) < 0.1 && a?.idsSum === a?.window.ids);
  t.deepEqual([a?.idsMax, b?.idsMax], meta.idsMax);
  t.is(b?.distinctIds, 9);
  t.is(a?.idShares?.length, 64);
});

// The miss-ratio curve of a table: the share of accesses that an LRU cache of a given size misses.
// It is kept as counts, which can be summed over shards, devices and hosts:
//
//   word 0      all accesses
//   word 1      first accesses of a row
//   words 2..   a histogram of reuse distances: accesses with a distance up to the matching size in
//               `curveSizes`, and above the size before it
//
// If distances are sampled (reuse-distance.ts), words from 1 on are estimates. They need not add up
// to word 0, as chance decides which popular rows are sampled. Ratios are relative to the sampled
// accesses.

import type { MissPoint } from "../../planner/cost/miss-curve.ts";

/** The cache sizes of a curve, in rows: two per octave, up to 2^31, the most rows of a table. */
export const curveSizes: readonly number[] = [
  ...new Set(Array.from({ length: 63 }, (_, i) => Math.round(2 ** (i / 2)))),
];

const firstSize = 2;

/** Words of one table's counts. */
export const curveWords: number = firstSize + curveSizes.length;

/** The index of the word that counts accesses with this reuse distance, in rows. */
export function bucketOf(distance: number): number {
  let [low, high] = [0, curveSizes.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (distance <= (curveSizes[middle] ?? 0)) high = middle;
    else low = middle + 1;
  }
  return firstSize + low;
}

/**
 * The curve of these counts, from one row to the size from which on only first accesses miss, so
 * that the curve is flat. Empty if no access was sampled.
 */
export function missCurveOf(counts: ArrayLike<number>): MissPoint[] {
  let last = firstSize;
  let sampled = 0;
  for (let word = 1; word < counts.length; word++) {
    const count = counts[word] ?? 0;
    sampled += count;
    if (count > 0) last = Math.max(last, word);
  }
  if (sampled === 0) return [];
  const points: MissPoint[] = [];
  let hits = 0;
  for (let word = firstSize; word <= last; word++) {
    hits += counts[word] ?? 0;
    points.push({ rows: curveSizes[word - firstSize] ?? 0, missRatio: 1 - hits / sampled });
  }
  return points;
}

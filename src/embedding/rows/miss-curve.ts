// The miss-ratio curve of a table: of its accesses, how many a cache of so many rows would not have
// had, by the least recently used. As counts that can be added up, over shards, devices and hosts:
//
//   word 0      accesses, all of them
//   word 1      those that were the first of their row
//   words 2..   those of a reuse distance up to each of `curveSizes`, from the one before on
//
// Words from 1 on are estimates, where distances were sampled (reuse-distance.ts): they need not
// add up to word 0, as popular rows are sampled or not by chance. A ratio is one of what was
// sampled.

import type { MissPoint } from "../../planner/miss-curve.ts";

/** Sizes for which a curve counts, in rows: two to an octave, up to the most rows of a table. */
export const curveSizes: readonly number[] = [
  ...new Set(Array.from({ length: 63 }, (_, i) => Math.round(2 ** (i / 2)))),
];

const firstSize = 2;

/** Words of one table's counts. */
export const curveWords: number = firstSize + curveSizes.length;

/** The word that counts a reuse distance, in rows. */
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
 * The curve that counts make, from one row on to the size beyond which it is flat: there, what
 * misses is the first access of each row. Empty: there was no access.
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

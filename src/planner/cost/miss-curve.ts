// Miss-ratio curves: the share of row accesses that miss a cache of a given size, as counted in a
// run or computed by Zipf's law. An access is one distinct row of a batch, however often the batch
// looks it up.

import { distinctIds } from "./popularity.ts";

/** A point of a curve. Between two points, the ratio is linear in the logarithm of the size. */
export interface MissPoint {
  readonly rows: number;
  readonly missRatio: number;
}

/** The rows that stay in a cache: the most recently used, or the most frequently used. */
export type CachePolicy = "lru" | "lfu";

/**
 * Maximum number of points. Rows that are still missing after 2^60 draws are hardly ever needed.
 */
const octavesMax = 60;

/** Returns the miss ratio of a cache with `rows` rows. */
export function missRatioAt(curve: readonly MissPoint[], rows: number): number {
  const above = curve.findIndex((point) => point.rows >= rows);
  if (rows < 1 || curve.length === 0) return 1;
  const to = above < 0 ? curve.at(-1) : curve[above];
  const from = above <= 0 ? to : curve[above - 1];
  if (to === undefined || from === undefined || above < 0 || from === to) return to?.missRatio ?? 1;
  const share = Math.log(rows / from.rows) / Math.log(to.rows / from.rows);
  return from.missRatio + share * (to.missRatio - from.missRatio);
}

/**
 * Computes the miss-ratio curve of ids drawn by Zipf's law, `draws` per batch.
 *
 * LRU, by the approximation of Che et al. ("Hierarchical Web Caching Systems", JSAC 2002) for whole
 * batches: a cache holds the rows of the last x draws, distinctIds(x) rows, and lacks the other
 * rows of the next batch. LFU holds the most popular rows.
 */
export function zipfCurve(options: {
  readonly rows: number;
  readonly draws: number;
  readonly zipf: number;
  readonly policy: CachePolicy;
}): MissPoint[] {
  const { rows, draws, zipf, policy } = options;
  const asked = (of: number, hot = 0) => distinctIds({ rows, draws: of, zipf, hot });
  const distinct = asked(draws);
  if (distinct === 0) return [{ rows, missRatio: 0 }];
  const points: MissPoint[] = [];
  for (let octave = 0; octave < octavesMax && (points.at(-1)?.rows ?? 0) < rows - 1; octave++) {
    const size = policy === "lru" ? asked(2 ** octave) : Math.min(rows, 2 ** octave);
    const missed = policy === "lru" ? asked(2 ** octave + draws) - size : asked(draws, size);
    points.push({ rows: size, missRatio: Math.min(1, Math.max(0, missed / distinct)) });
  }
  return [...points.filter((point) => point.rows < rows), { rows, missRatio: 0 }];
}

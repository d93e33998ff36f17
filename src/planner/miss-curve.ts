// Of the rows that batches need, how many a cache does not have, by its size: as a run has counted
// it, or as Zipf's law says. An access is one distinct row of a batch, however often it is looked
// up there.

import { distinctIds } from "./popularity.ts";

/** A point of a curve; between two, ratios go as the logarithm of the size. */
export interface MissPoint {
  readonly rows: number;
  readonly missRatio: number;
}

/** Which rows stay in a cache: those asked for last, or most. */
export type CachePolicy = "lru" | "lfu";

/** Beyond so many batches, what a cache still lacks is asked for hardly ever. */
const octavesMax = 60;

/** The miss ratio of a cache of so many rows. */
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
 * The curve of ids drawn by Zipf's law, `draws` in a batch.
 *
 * LRU, by the approximation of Che et al. ("Hierarchical Web Caching Systems", JSAC 2002) for whole
 * batches: a cache holds what the last x draws asked for, distinctIds(x) rows, and lacks those that
 * the next batch asks for besides. LFU holds the most popular rows.
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
  const points: MissPoint[] = [];
  for (let octave = 0; octave < octavesMax && (points.at(-1)?.rows ?? 0) < rows - 1; octave++) {
    const size = policy === "lru" ? asked(2 ** octave) : Math.min(rows, 2 ** octave);
    const missed = policy === "lru" ? asked(2 ** octave + draws) - size : asked(draws, size);
    points.push({ rows: size, missRatio: Math.min(1, Math.max(0, missed / distinct)) });
  }
  return [...points.filter((point) => point.rows < rows), { rows, missRatio: 0 }];
}

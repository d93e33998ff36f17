// Miss-ratio curves: the share of row accesses that miss a cache of a given size, as counted in a
// run or computed by Zipf's law. An access is one distinct row of a batch, however often the batch
// looks it up. Under Zipf's law, row k of n is drawn with p(k) ~ k^-zipf; all of m draws miss it
// with probability (1 - p)^m ~ exp(-m p). Sums beyond the first rows are integrals over log(k), so
// 10^9 rows cost no more than a thousand.

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

/** Rows summed one by one, and points of the integral over the others. */
const firstRows = 64;
const points = 192;

/** Expected number of distinct ids among `draws`, without the `hot` most popular of `rows` ids. */
export function distinctIds(options: {
  readonly rows: number;
  readonly draws: number;
  readonly zipf: number;
  readonly hot: number;
}): number {
  const { rows, draws, zipf, hot } = options;
  if (hot >= rows) return 0;
  const whole = sumOverRanks(0, rows, (k) => k ** -zipf);
  const seen = (k: number) => -Math.expm1((-draws * k ** -zipf) / whole);
  return Math.min(draws, sumOverRanks(hot, rows, seen));
}

/**
 * Sum of f(k) over the ranks k = from+1 .. to; beyond the first rows by the midpoint rule over
 * log(k).
 */
export function sumOverRanks(from: number, to: number, f: (k: number) => number): number {
  const middle = Math.min(to, from + firstRows);
  let sum = 0;
  for (let k = from + 1; k <= middle; k++) sum += f(k);
  if (middle === to) return sum;
  // Each k stands for the interval k-1/2 .. k+1/2.
  const start = Math.log(middle + 0.5);
  const step = (Math.log(to + 0.5) - start) / points;
  for (let i = 0; i < points; i++) {
    const k = Math.exp(start + (i + 0.5) * step);
    sum += f(k) * k * step;
  }
  return sum;
}

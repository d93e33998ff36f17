// Expected number of distinct rows that a batch needs if ids follow Zipf's law: the rows that a
// cache must fetch. Row k of n is drawn with p(k) ~ k^-zipf; all of m draws miss it with
// probability (1 - p)^m ~ exp(-m p). Sums beyond the first rows are integrals over log(k), so 10^9
// rows cost no more than a thousand.

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
  const whole = sumOver(0, rows, (k) => k ** -zipf);
  const seen = (k: number) => -Math.expm1((-draws * k ** -zipf) / whole);
  return Math.min(draws, sumOver(hot, rows, seen));
}

/** Sum of f(k) over k = from+1 .. to; beyond the first rows by the midpoint rule over log(k). */
function sumOver(from: number, to: number, f: (k: number) => number): number {
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

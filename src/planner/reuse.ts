// How often the samples of a window look a distinct row up, where ids are popular by Zipf's law:
// the bins that a cost network is told of a table, where nobody counted them.

import { reuseBins } from "./cost-table.ts";

/** Samples of a window: reuse is of so many, whatever the batch size is. */
export const windowSamples = 65_536;

/** Rows that are taken one by one, and points of the sum over the others, even in log(row). */
const firstRows = 64;
const points = 160;
/** Above this mean a count's law is nearly normal. */
const poissonMeanMax = 40;

/** Shares of the distinct rows of a window by how often it looks each up; all 0 without ids. */
export function reuseOf(table: {
  readonly rows: number;
  readonly poolingFactor: number;
  readonly zipf: number;
}): number[] {
  const { rows, zipf } = table;
  const draws = table.poolingFactor * windowSamples;
  const places = placesOf(rows);
  const all = places.reduce((sum, { row, count }) => sum + count * row ** -zipf, 0);
  const bins = new Array<number>(reuseBins).fill(0);
  for (const { row, count } of places) {
    const mean = (draws * row ** -zipf) / all;
    let below = shareUpTo(0, mean);
    for (const bin of bins.keys()) {
      const upTo = bin === reuseBins - 1 ? 1 : shareUpTo(2 ** bin, mean);
      bins[bin] = (bins[bin] ?? 0) + count * Math.max(0, upTo - below);
      below = upTo;
    }
  }
  return sharesOf(bins);
}

/** The values over their sum; zeros, where that is 0. */
export function sharesOf(values: readonly number[]): number[] {
  const all = values.reduce((sum, value) => sum + value, 0);
  return values.map((value) => (all === 0 ? 0 : value / all));
}

/** Rows by popularity, from 1, and how many rows each stands for. */
function placesOf(rows: number): { row: number; count: number }[] {
  const few = Math.min(rows, firstRows);
  const places = Array.from({ length: few }, (_, i) => ({ row: i + 1, count: 1 }));
  if (rows <= firstRows) return places;
  const start = Math.log(firstRows + 0.5);
  const step = (Math.log(rows + 0.5) - start) / points;
  for (let i = 0; i < points; i++) {
    const [from, to] = [Math.exp(start + i * step), Math.exp(start + (i + 1) * step)];
    places.push({ row: Math.exp(start + (i + 0.5) * step), count: to - from });
  }
  return places;
}

/** The probability of at most `most` events of a Poisson law; near its mean it is nearly normal. */
function shareUpTo(most: number, mean: number): number {
  if (mean > poissonMeanMax) {
    // Logistic approximation of the normal law, to 0.02.
    const z = (most + 0.5 - mean) / Math.sqrt(mean);
    return 1 / (1 + Math.exp(-1.702 * z));
  }
  let term = Math.exp(-mean);
  let sum = term;
  // Behind ten means and some nothing is left.
  const last = Math.min(most, 10 * poissonMeanMax);
  for (let k = 1; k <= last; k++) {
    term *= mean / k;
    sum += term;
  }
  return Math.min(1, sum);
}

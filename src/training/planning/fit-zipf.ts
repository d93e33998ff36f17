// The exponent of Zipf's law that explains how many distinct ids were seen.

import type { FeatureStatistics } from "../../data/cache/feature-statistics.ts";
import { distinctIds } from "../../planner/cost/popularity.ts";

const exponentMax = 2;
/** The exponent is exact to 2^-16: far more than it is worth. */
const halvings = 17;

/**
 * The exponent, 0 to 2, with which the window's draws from so many rows have as many distinct ids
 * as were counted; undefined where there was no id. Distinct ids fall as the exponent rises, so
 * that halving the interval finds it.
 */
export function fittedZipf(
  { window }: Pick<FeatureStatistics, "window">,
  rows: number,
): number | undefined {
  const counted = window.reuse.reduce((sum, ids) => sum + ids, 0);
  if (counted === 0) return undefined;
  const drawnWith = (zipf: number) => distinctIds({ rows, draws: window.ids, zipf, hot: 0 });
  let [low, high] = [0, exponentMax];
  for (let halving = 0; halving < halvings; halving++) {
    const middle = (low + high) / 2;
    if (drawnWith(middle) > counted) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}

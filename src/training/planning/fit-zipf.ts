// Fits the exponent of Zipf's law to the number of distinct ids in a window.

import type { FeatureStatistics } from "../../data/cache/feature-statistics.ts";
import { distinctIds } from "../../planner/cost/miss-curve.ts";

const exponentMax = 2;
/** Bisects the exponent to within 2^-16, far more exactly than the planner needs. */
const halvings = 17;

/**
 * Returns the exponent, 0 to 2, for which the window's draws from `rows` rows are expected to have
 * as many distinct ids as were counted; undefined if the window has no id. The number of distinct
 * ids falls as the exponent rises, so bisection finds it.
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

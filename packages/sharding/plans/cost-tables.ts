// A job's table as input of the cost networks.

import {
  type CostTable,
  type FeatureStatistics,
  featuresOf,
  type PlannableJob,
  type PlannedTable,
  reuseOf,
  sharesOf,
  windowSamples,
} from "../../../internal.ts";

/**
 * Describes a table by rows, dimension, pooling factor and reuse bins. The reuse is counted where
 * the data cache has a whole window of samples; otherwise it follows Zipf's law with the counted
 * exponent. A shorter window is not used: it looks each row up less often than the window of the
 * networks' training, so that the table would look like a different one.
 */
export function costTableOf(
  { model }: PlannableJob,
  { rows, dim, poolingFactor, zipf }: PlannedTable,
  index: number,
  statistics: readonly FeatureStatistics[] | undefined,
): CostTable {
  const counted: number[] = [];
  for (const [feature, { table }] of featuresOf(model).entries()) {
    const window = statistics?.[feature]?.window;
    if (table !== index || window === undefined || window.samples < windowSamples) continue;
    for (const [bin, ids] of window.reuse.entries()) {
      counted[bin] = (counted[bin] ?? 0) + ids;
    }
  }
  const bins = counted.length > 0 ? sharesOf(counted) : reuseOf({ rows, poolingFactor, zipf });
  return { rows, dim, poolingFactor, bins };
}

// A job's table as cost networks see it.

import type { FeatureStatistics } from "../../data/cache/feature-statistics.ts";
import { featuresOf } from "../../model/features.ts";
import type { CostTable } from "../../planner/cost-table.ts";
import { reuseOf, sharesOf, windowSamples } from "../../planner/reuse.ts";
import type { PlannedTable } from "../../planner/shards.ts";
import type { PlannableJob } from "./workload.ts";

/**
 * Its reuse is counted, where its data have a cache with a whole window of samples; else as Zipf's
 * law has it, whose exponent was counted, too. A shorter window looks each row up less often than
 * the one that networks are trained with, and so would tell them of other tables.
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

// A job's table as cost networks see it.

import type { FeatureStatistics } from "../../data/cache/feature-statistics.ts";
import { featuresOf } from "../../model/features.ts";
import type { CostTable } from "../../planner/learned/cost-table.ts";
import { reuseOf, sharesOf } from "../../planner/learned/reuse.ts";
import type { PlannedTable } from "../../planner/shards.ts";
import type { PlannableJob } from "./workload.ts";

/** Its reuse is counted, where its data have a cache; else as Zipf's law has it. */
export function costTableOf(
  { model }: PlannableJob,
  { rows, dim, poolingFactor, zipf }: PlannedTable,
  index: number,
  statistics: readonly FeatureStatistics[] | undefined,
): CostTable {
  const counted: number[] = [];
  for (const [feature, { table }] of featuresOf(model).entries()) {
    if (table !== index) continue;
    for (const [bin, ids] of statistics?.[feature]?.window.reuse.entries() ?? []) {
      counted[bin] = (counted[bin] ?? 0) + ids;
    }
  }
  const bins = counted.length > 0 ? sharesOf(counted) : reuseOf({ rows, poolingFactor, zipf });
  return { rows, dim, poolingFactor, bins };
}

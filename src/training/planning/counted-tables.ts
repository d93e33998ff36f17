// What was counted of the ids of each table, as people are told it: popularity as the planner takes
// it, beside the plain counts. Of several features in one table, ids and distinct ids add up.

import type { FeatureStatistics } from "../../data/cache/feature-statistics.ts";
import { featuresOf } from "../../model/features.ts";
import { type PlannableJob, workloadOf } from "./workload.ts";

/** Counts of one table's ids. */
export interface CountedTable {
  readonly name: string;
  readonly rows: number;
  /** Ids of a sample, on average. */
  readonly idsMean: number;
  /** Longest bag of a feature. */
  readonly idsMax: number;
  /** Distinct ids; of several features, those that they share count for each. */
  readonly distinct: number;
  /** Exponent of Zipf's law that explains how often ids return. */
  readonly zipf: number;
}

/** The counts of each table; `statistics`: of each feature. */
export function countedTables(
  job: PlannableJob,
  statistics: readonly FeatureStatistics[],
): CountedTable[] {
  const features = featuresOf(job.model);
  const { tables } = workloadOf(job, { statistics });
  return tables.map(({ name, rows, zipf }, index) => {
    const own = statistics.filter((_, feature) => features[feature]?.table === index);
    const sumOf = (count: "idsMean" | "distinctIds") =>
      own.reduce((sum, one) => sum + one[count], 0);
    const idsMax = own.reduce((most, one) => Math.max(most, one.idsMax), 0);
    return { name, rows, idsMean: sumOf("idsMean"), idsMax, distinct: sumOf("distinctIds"), zipf };
  });
}

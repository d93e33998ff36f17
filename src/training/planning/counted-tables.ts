// Counted ids of each table, for display: the popularity as the planner uses it, beside the plain
// counts. Where several features share a table, their ids and distinct ids are added up.

import type { FeatureStatistics } from "../../data/cache/feature-statistics.ts";
import { featuresOf } from "../../model/features.ts";
import { type PlannableJob, workloadOf } from "./workload.ts";

/** Counts of one table's ids. */
export interface CountedTable {
  readonly name: string;
  readonly rows: number;
  /** Mean ids of a sample. */
  readonly idsMean: number;
  /** Longest bag of a feature. */
  readonly idsMax: number;
  /** Distinct ids; an id that several features of the table share counts once for each. */
  readonly distinct: number;
  /** Exponent of Zipf's law, fitted to how often ids recur. */
  readonly zipf: number;
}

/** Returns the counts of each table; `statistics` holds those of each feature. */
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

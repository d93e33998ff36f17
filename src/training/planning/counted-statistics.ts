// Statistics of a job's training data for the planner, read from the data cache where it exists.

import type { FeatureStatistics } from "../../data/cache/feature-statistics.ts";
import { findCache } from "../../data/cache/prepare-cache.ts";
import type { SplitSpec } from "../../data/column-options.ts";
import { keyColumnOf } from "../../data/split-keys.ts";
import { featuresOf, shapesOf } from "../../model/features.ts";
import { realDisk } from "../../ports/disk.ts";
import { type PlannableJob, workloadOf } from "./workload.ts";

/** The part of a job that decides which data cache its training data have. */
export interface CountedJob extends Pick<PlannableJob, "data" | "model"> {
  readonly evaluation?: { readonly split?: SplitSpec | undefined } | undefined;
}

/** Counts of a job's training data. */
export interface CountedStatistics {
  /** Number of counted samples. */
  readonly samples: number;
  /** By feature. */
  readonly features: readonly FeatureStatistics[];
}

/**
 * The counts in the data cache of a job; undefined if there is no cache. Only reads.
 * @throws StoreFailedError where the disk fails
 */
export function countedStatistics({
  data,
  model,
  evaluation,
}: CountedJob): CountedStatistics | undefined {
  const cache = findCache(data, shapesOf(model), realDisk, keyColumnOf(evaluation?.split));
  if (cache?.statistics === undefined) return undefined;
  return { samples: cache.samples, features: cache.statistics };
}

// Counted ids of each table, for display: the popularity as the planner uses it, beside the plain
// counts. Where several features share a table, their ids and distinct ids are added up.

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

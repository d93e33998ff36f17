// Statistics of a job's training data for the planner, read from the data cache where it exists.

import type { FeatureStatistics } from "../../data/cache/feature-statistics.ts";
import { findCache } from "../../data/cache/prepare-cache.ts";
import type { SplitSpec } from "../../data/column-options.ts";
import { keyColumnOf } from "../../data/split-keys.ts";
import { shapesOf } from "../../model/features.ts";
import type { Disk } from "../../ports/disk.ts";
import type { PlannableJob } from "./workload.ts";

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
 * The counts in the data cache of a job; undefined if there is no cache, or if an older release
 * wrote it without counts. Only reads.
 * @throws StoreFailedError where the disk fails
 */
export function countedStatistics(
  { data, model, evaluation }: CountedJob,
  disk?: Disk,
): CountedStatistics | undefined {
  const cache = findCache(data, shapesOf(model), disk, keyColumnOf(evaluation?.split));
  if (cache?.statistics === undefined) return undefined;
  return { samples: cache.samples, features: cache.statistics };
}

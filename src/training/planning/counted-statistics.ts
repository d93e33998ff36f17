// What the cache of a job's data tells the planner, where the cache has been made.

import type { FeatureStatistics } from "../../data/cache/feature-statistics.ts";
import { findCache } from "../../data/cache/prepare-cache.ts";
import { keyColumnOf } from "../../data/split-keys.ts";
import type { SplitSpec } from "../../data/split-options.ts";
import { shapesOf } from "../../model/features.ts";
import type { Disk } from "../../ports/disk.ts";
import type { PlannableJob } from "./workload.ts";

/** What of a job decides its training data's cache. */
export interface CountedJob extends Pick<PlannableJob, "data" | "model"> {
  readonly evaluation?: { readonly split?: SplitSpec | undefined } | undefined;
}

/** Counts of a job's training data. */
export interface CountedStatistics {
  /** Samples that were counted. */
  readonly samples: number;
  /** By feature. */
  readonly features: readonly FeatureStatistics[];
}

/**
 * The counts in the data cache of a job; undefined: the cache has not been made, or an older
 * release made it, which did not count. Looks, and changes nothing.
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

// The answers of a served model: scores, and the version that computed them.

import type { Calibrations } from "../../../internal.ts";

/** The version of a model that computed an answer. */
export interface ServedVersion {
  /** `sha256:…`, equal to the digest in a run's result. */
  readonly digest: string;
  /** Number of training steps of this version. */
  readonly step: number;
  /** Present if probabilities are calibrated by the calibration stored with the version. */
  readonly calibrated?: true;
}

/** Scores that were all computed by one version. */
export interface Scored {
  /** (B), or (B,T) for a model with T tasks, in the order of the records; owned by the caller. */
  readonly scores: Float32Array;
  readonly version: ServedVersion;
}

/** A user's candidates, ranked by one version. */
export interface Ranked extends Scored {
  /**
   * Indices of the candidates with the highest scores for the first task, or for `by`, best first.
   * Of equal scores, the earlier candidate comes first. `scores` covers all candidates.
   */
  readonly order: Int32Array;
}

/** Options of `ServedModel.rank`. */
export interface RankOptions {
  /** Number of candidates in `order`. @default all */
  readonly top?: number | undefined;
  /** The task that ranks. @default the first */
  readonly by?: string | undefined;
}

/** The version for answers: marked as calibrated if it has calibrations. */
export function told(
  version: ServedVersion,
  calibrations: Calibrations | undefined,
): ServedVersion {
  return calibrations === undefined ? version : { ...version, calibrated: true };
}

/** Indices of the `top` candidates with the highest scores, best first. */
export function bestOf(scores: Float32Array, tasks: number, task: number, top: number): Int32Array {
  const of = (candidate: number) => scores[candidate * tasks + task] ?? 0;
  const order = Int32Array.from({ length: scores.length / tasks }, (_, i) => i);
  return order.sort((one, other) => of(other) - of(one) || one - other).slice(0, top);
}

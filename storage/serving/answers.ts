// What a served model answers: scores, and the version that computed them.

import type { Calibrations } from "../model/predictor.ts";

/** The version of a model that computed an answer. */
export interface ServedVersion {
  /** `sha256:…`, equal to the digest in a run's result. */
  readonly digest: string;
  /** Steps that it was trained for. */
  readonly step: number;
  /** Whether its probabilities are calibrated, as is stored with it; absent: they are not. */
  readonly calibrated?: true;
}

/** Scores, all of one version. */
export interface Scored {
  /** (B), or (B,T) of a model with T tasks, in the order of the records; the caller owns them. */
  readonly scores: Float32Array;
  readonly version: ServedVersion;
}

/** A user's candidates, ranked by one version. */
export interface Ranked extends Scored {
  /**
   * Indices of candidates, best first: those of the highest scores of the first task, or of
   * `by`. Of equal scores, the earlier candidate comes first. `scores` has all candidates.
   */
  readonly order: Int32Array;
}

/** Options of `ServedModel.rank`. */
export interface RankOptions {
  /** How many candidates `order` names. @default all */
  readonly top?: number | undefined;
  /** The task that ranks. @default the first */
  readonly by?: string | undefined;
}

/** A version, as answers name it. */
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

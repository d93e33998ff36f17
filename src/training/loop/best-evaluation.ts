// The best evaluation of a run so far: plain JSON and part of the cut, so that a restored run, and
// one whose history is longer than what a checkpoint keeps of it, knows its best.

import { z } from "zod";
import type { Metrics } from "./metrics.ts";

/**
 * Metrics by which evaluations are compared: AUC and GAUC are better when higher, the others when
 * lower.
 */
export const comparedMetric = z.enum(["auc", "gauc", "logLoss", "normalizedEntropy"]);

export type ComparedMetric = z.output<typeof comparedMetric>;

/** An evaluation, and by which metric it is the best. */
export interface BestEvaluation {
  readonly metric: ComparedMetric;
  readonly step: number;
  readonly evaluation: Metrics;
}

/** Whether a higher value of the metric is the better one. */
export function isHigherBetter(metric: ComparedMetric): boolean {
  return metric === "auc" || metric === "gauc";
}

/** Whether `value` is better than `than`. What is no number is worse than any number. */
export function isBetter(
  metric: ComparedMetric,
  value: number | undefined,
  than: number | undefined,
): boolean {
  // JSON writes NaN as null: a restored metric may be one.
  if (value === undefined || !Number.isFinite(value)) return false;
  if (than === undefined || !Number.isFinite(than)) return true;
  return isHigherBetter(metric) ? value > than : value < than;
}

/** How much better `value` is than the best so far; NaN where it is no number. */
export function gainOf(metric: ComparedMetric, value: number, best: number | null): number {
  if (Number.isNaN(value)) return value;
  if (best === null) return Number.POSITIVE_INFINITY;
  return isHigherBetter(metric) ? value - best : best - value;
}

/**
 * The best of `points` by `metric`, the first of equal ones; undefined where none has a number.
 */
export function bestOf(
  metric: ComparedMetric,
  points: readonly { readonly step: number; readonly evaluation?: Metrics | undefined }[],
): BestEvaluation | undefined {
  let best: BestEvaluation | undefined;
  for (const { step, evaluation } of points) {
    if (evaluation === undefined) continue;
    if (isBetter(metric, evaluation[metric], best?.evaluation[metric])) {
      best = { metric, step, evaluation };
    }
  }
  return best;
}

// The best evaluation of a run so far: plain JSON and part of the cut, so that a restored run, and
// one whose history is longer than what a checkpoint keeps of it, knows its best.

import { z } from "zod";
import type { Metrics } from "./metrics.ts";

/** Those of labels that are numbers. */
export const numberMetrics = ["mse", "rmse", "mae", "r2"] as const;

/**
 * Metrics by which evaluations are compared: AUC, GAUC and R² are better when higher, the others
 * when lower.
 */
export const comparedMetric = z.enum([
  "auc",
  "gauc",
  "logLoss",
  "normalizedEntropy",
  ...numberMetrics,
]);

export type ComparedMetric = z.output<typeof comparedMetric>;

/** Which figure of an evaluation counts. */
export interface Watched {
  readonly metric: ComparedMetric;
  /** Of several tasks, the one whose figure it is. Left out: the first. */
  readonly task?: string | undefined;
}

/** An evaluation, and by which figure it is the best. */
export interface BestEvaluation extends Watched {
  readonly step: number;
  readonly evaluation: Metrics;
}

/** Whether it is a metric of labels that are numbers, not of classes. */
export function isOfNumbers(metric: ComparedMetric): boolean {
  return (numberMetrics as readonly ComparedMetric[]).includes(metric);
}

/** Whether a higher value of the metric is the better one. */
export function isHigherBetter(metric: ComparedMetric): boolean {
  return metric === "auc" || metric === "gauc" || metric === "r2";
}

/** The figure of an evaluation that counts. JSON writes NaN as null: a restored one may be null. */
export function figureOf(metrics: Metrics, { metric, task }: Watched): number {
  const tasks = new Map(Object.entries(metrics.tasks ?? {}));
  const own = task === undefined ? metrics : (tasks.get(task) ?? metrics);
  return own[metric] ?? Number.NaN;
}

/** Whether `value` is better than `than`. What is no number is worse than any number. */
export function isBetter(
  metric: ComparedMetric,
  value: number | undefined,
  than: number | undefined,
): boolean {
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
 * The best of `points` by `watched`, the first of equal ones; undefined where none has a number.
 */
export function bestOf(
  watched: Watched,
  points: readonly { readonly step: number; readonly evaluation?: Metrics | undefined }[],
): BestEvaluation | undefined {
  const { metric, task } = watched;
  let best: BestEvaluation | undefined;
  for (const { step, evaluation } of points) {
    if (evaluation === undefined) continue;
    const than = best && figureOf(best.evaluation, watched);
    if (isBetter(metric, figureOf(evaluation, watched), than)) {
      best = { metric, ...(task !== undefined && { task }), step, evaluation };
    }
  }
  return best;
}

// The best evaluation of a run so far. It is plain JSON and part of the cut, so that it survives a
// restore, even when the checkpoint no longer keeps that part of the run's history.

import { z } from "zod";
import type { Metrics } from "./metrics.ts";

/** Metrics of numeric labels. */
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

/** The option that names the task of the compared metric, for models of several tasks. */
export const comparedTask = z
  .string()
  .min(1)
  .optional()
  .describe("With several tasks: name of the task whose metric counts. Left out: the first task.");

/** The least improvement of a metric, as an option. */
export const minDelta = z
  .number()
  .min(0)
  .default(0)
  .describe(
    "Least improvement: a metric improves only if it is better than the best by more than this.",
  );

/** The metric of an evaluation that is compared. */
export interface Watched {
  readonly metric: ComparedMetric;
  /** The task whose metric is compared. Left out: the first. */
  readonly task?: string | undefined;
}

/** The best evaluation, and the metric by which it is the best. */
export interface BestEvaluation extends Watched {
  readonly step: number;
  readonly evaluation: Metrics;
}

/** Whether the metric is for numeric labels, not for classes. */
export function isOfNumbers(metric: ComparedMetric): boolean {
  return (numberMetrics as readonly ComparedMetric[]).includes(metric);
}

/** Whether higher values of the metric are better. */
export function isHigherBetter(metric: ComparedMetric): boolean {
  return metric === "auc" || metric === "gauc" || metric === "r2";
}

/**
 * Returns the watched metric of an evaluation, or NaN. JSON writes NaN as null, so a restored
 * metric may be null.
 */
export function figureOf(metrics: Metrics, { metric, task }: Watched): number {
  const tasks = new Map(Object.entries(metrics.tasks ?? {}));
  const own = task === undefined ? metrics : (tasks.get(task) ?? metrics);
  return own[metric] ?? Number.NaN;
}

/**
 * Whether `value` is better than `than`. A value that is missing or not finite is worse than any
 * number.
 */
export function isBetter(
  metric: ComparedMetric,
  value: number | undefined,
  than: number | undefined,
): boolean {
  if (value === undefined || !Number.isFinite(value)) return false;
  if (than === undefined || !Number.isFinite(than)) return true;
  return isHigherBetter(metric) ? value > than : value < than;
}

/**
 * How much better `value` is than the best so far; NaN if `value` is not finite: a best of Infinity
 * would be null after a restore, as JSON has no infinities.
 */
export function gainOf(metric: ComparedMetric, value: number, best: number | null): number {
  if (!Number.isFinite(value)) return Number.NaN;
  if (best === null) return Number.POSITIVE_INFINITY;
  return isHigherBetter(metric) ? value - best : best - value;
}

/**
 * The best of `points` by the watched metric, the first among equals; undefined if no point has a
 * finite value of it.
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

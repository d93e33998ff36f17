// Metrics of evaluations: for each metric and task a curve, with its last and its best value.

import type { HistoryFigures } from "../../../../internal.ts";

type Name = Exclude<keyof HistoryFigures, "thresholds" | "tasks">;

interface ShownMetric {
  readonly name: Name;
  readonly title: string;
  /** Id of the metric's chart in addresses. */
  readonly id: string;
  /** Which value is best; `nearest`: nearest to 1. */
  readonly best: "highest" | "lowest" | "nearest";
}

/** The metrics that are drawn, in this order. */
export const shownMetrics: readonly ShownMetric[] = [
  { name: "auc", title: "AUC", id: "auc", best: "highest" },
  { name: "gauc", title: "GAUC, AUC within groups", id: "gauc", best: "highest" },
  { name: "logLoss", title: "Log loss", id: "logloss", best: "lowest" },
  { name: "normalizedEntropy", title: "Normalized entropy", id: "entropy", best: "lowest" },
  { name: "calibration", title: "Calibration, 1 is exact", id: "calibration", best: "nearest" },
  { name: "rmse", title: "RMSE", id: "rmse", best: "lowest" },
  { name: "mse", title: "MSE", id: "mse", best: "lowest" },
  { name: "mae", title: "MAE", id: "mae", best: "lowest" },
  { name: "r2", title: "R²", id: "r2", best: "highest" },
];

export interface Evaluated {
  readonly step: number;
  readonly metrics: HistoryFigures;
}

interface At {
  readonly step: number;
  readonly value: number;
}

/** A metric of one task, over the steps. */
export interface MetricCurve {
  /** The task; "" for a model with one task. */
  readonly task: string;
  readonly points: readonly (readonly [step: number, value: number])[];
  readonly last: At;
  /** The best value, and its first step. */
  readonly best: At;
}

/** A metric that evaluations have, with a curve for each task. */
export interface FoundMetric extends ShownMetric {
  readonly curves: readonly MetricCurve[];
}

/** The metrics that evaluations have. A step that was evaluated twice counts once. */
export function metricsOf(evaluations: readonly Evaluated[]): FoundMetric[] {
  const tasks = new Set(evaluations.flatMap(({ metrics }) => Object.keys(metrics.tasks ?? {})));
  const names = tasks.size === 0 ? [""] : [...tasks];
  return shownMetrics.flatMap((metric) => {
    const curves = names.flatMap((task) => curveOf(metric, task, evaluations) ?? []);
    return curves.length === 0 ? [] : [{ ...metric, curves }];
  });
}

function curveOf(
  { name, best: wanted }: ShownMetric,
  task: string,
  evaluations: readonly Evaluated[],
): MetricCurve | undefined {
  const values = new Map<number, number>();
  for (const { step, metrics } of evaluations) {
    const value = (task === "" ? metrics : metrics.tasks?.[task])?.[name];
    if (typeof value === "number" && Number.isFinite(value)) values.set(step, value);
  }
  const points = [...values].sort(([a], [b]) => a - b);
  const [first] = points;
  if (first === undefined) return undefined;
  const rank = ([, value]: readonly [number, number]) =>
    wanted === "highest" ? -value : wanted === "lowest" ? value : Math.abs(value - 1);
  const best = points.reduce((best, one) => (rank(one) < rank(best) ? one : best), first);
  return { task, points, last: at(points.at(-1) ?? first), best: at(best) };
}

const at = ([step, value]: readonly [number, number]): At => ({ step, value });

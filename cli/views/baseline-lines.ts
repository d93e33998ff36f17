// Baselines beside a model, as a table for people, with a conclusion.

import type { Baseline, Figures, TaskBaselines } from "../support/baseline.ts";
import { aligned, metric } from "../support/format.ts";

/** A table for each label, and a sentence where the model is not better than a baseline. */
export function baselineLines(tasks: readonly TaskBaselines[]): string[] {
  return tasks.flatMap(({ task, model, baselines, missing }) => {
    const isNumber = model.rmse !== undefined;
    const of = task === undefined ? "" : ` · ${task}`;
    const head = isNumber ? ["RMSE", "MAE", "R²"] : ["AUC", "log loss", "NE"];
    const cellsOf = ({ auc, logLoss, normalizedEntropy, rmse, mae, r2 }: Figures) => {
      return (isNumber ? [rmse, mae, r2] : [auc, logLoss, normalizedEntropy]).map(metric);
    };
    const lines = baselines.map((one) => [nameOf(one, isNumber), ...cellsOf(one.metrics)]);
    const own = conclusionOf(model, baselines);
    return [
      "",
      ...aligned([[`Baseline${of}`, ...head], ...lines, ["the model", ...cellsOf(model)]]),
      ...(missing === undefined ? [] : [`There is no logistic regression: ${missing}`]),
      ...(own === undefined ? [] : [own]),
    ];
  });
}

/** Why the model is not better than its baselines; undefined: it is. */
export function conclusionOf(model: Figures, baselines: readonly Baseline[]): string | undefined {
  const isNumber = model.rmse !== undefined;
  const shown = (figure: string, baseline: Baseline, own?: number, other?: number) =>
    `The model does not beat the baseline: ${nameOf(baseline, isNumber)} has ${figure} ` +
    `${metric(other)}, the model ${metric(own)}; docs/quality.md says what to do`;
  for (const baseline of [...baselines].reverse()) {
    const { rmse, auc, logLoss } = baseline.metrics;
    if (isNumber) {
      if (!isLess(model.rmse, rmse)) return shown("an RMSE of", baseline, model.rmse, rmse);
    } else if (isLess(model.auc, auc) || model.auc === auc) {
      return shown("an AUC of", baseline, model.auc, auc);
    } else if (!isLess(model.logLoss, logLoss)) {
      return shown("a log loss of", baseline, model.logLoss, logLoss);
    }
  }
  return undefined;
}

function isLess(one = Number.NaN, other = Number.NaN): boolean {
  return one < other;
}

function nameOf({ kind, column }: Baseline, isNumber: boolean): string {
  switch (kind) {
    case "mean":
      return isNumber ? "mean of the training rows" : "share of positives";
    case "popularity":
      return `popularity by ${column}`;
    case "logistic-regression":
      return isNumber ? "linear regression" : "logistic regression";
    default:
      return kind satisfies never;
  }
}

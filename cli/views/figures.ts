// Metrics of an evaluation for people: classification metrics or regression metrics.

import type { Metrics } from "../../internal.ts";
import { metric, thresholdLines } from "../support/format.ts";

/** The metrics to print; unknown ones are left out. */
export type Figures = {
  readonly [Name in Exclude<keyof Metrics, "samples" | "positives" | "tasks">]?:
    | Metrics[Name]
    | undefined;
};

/** `AUC 0.7912, normalized entropy 0.8123, …`; with `calibration` where `isWhole`. */
export function figuresLine(found: Figures, separator = ", ", isWhole = false): string {
  const { auc, gauc, normalizedEntropy, logLoss, rmse, mae, r2, calibration } = found;
  const of = (name: string, value: number | undefined) => `${name} ${metric(value)}`;
  const own =
    rmse === undefined
      ? [
          of("AUC", auc),
          ...(gauc === undefined ? [] : [of("GAUC", gauc)]),
          of("normalized entropy", normalizedEntropy),
          of("log loss", logLoss),
        ]
      : [of("RMSE", rmse), of("MAE", mae), of("R²", r2)];
  return [...own, ...(isWhole ? [of("calibration", calibration)] : [])].join(separator);
}

/** A line for each figure of a report. */
export function figureLines(found: Figures): string[] {
  const { auc, gauc, normalizedEntropy, logLoss, mse, rmse, mae, r2, calibration } = found;
  const of = (name: string, value: number | undefined) => `${name.padEnd(20)} ${metric(value)}`;
  if (rmse !== undefined) {
    const numbers = [of("RMSE", rmse), of("MSE", mse), of("MAE", mae), of("R²", r2)];
    return [...numbers, of("Calibration", calibration)];
  }
  return [
    of("AUC", auc),
    of("Normalized entropy", normalizedEntropy),
    of("Log loss", logLoss),
    of("Calibration", calibration),
    ...(gauc === undefined ? [] : [of("GAUC", gauc)]),
    ...thresholdLines(found.thresholds),
  ];
}

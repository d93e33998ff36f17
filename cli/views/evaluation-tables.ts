// Metrics by slices and importance of features of an evaluation, as tables for people.

import type { ColumnSlices, ImportanceReport, Metrics } from "../../internal.ts";
import { aligned, count, metric } from "../support/format.ts";

/** Cells of a table as text; the first line is its head. */
export type TextTable = readonly (readonly string[])[];

/** The tables of `sliceTables`, one below the other. */
export function sliceLines(columns: readonly ColumnSlices[]): string[] {
  return sliceTables(columns).flatMap((table) => ["", ...aligned(table)]);
}

/** A table for each column and task, one line for each slice. */
export function sliceTables(columns: readonly ColumnSlices[]): TextTable[] {
  return columns.flatMap(({ column, slices, others }) => {
    const rows = slices.map(({ value, metrics }) => [value ?? "(missing)", metrics] as const);
    const all = others && [[othersName(others), others.metrics] as const];
    const named = [...rows, ...(all ?? [])];
    return tasksOf(named[0]?.[1]).map((task) => {
      const own = named.map(([name, metrics]) => [name, metrics.tasks?.[task] ?? metrics] as const);
      const of = task === "" ? "" : ` · ${task}`;
      return sliceTable(`By ${column}${of}`, own);
    });
  });
}

function sliceTable(title: string, rows: readonly (readonly [string, Metrics])[]): TextTable {
  const isNumber = rows[0]?.[1].rmse !== undefined;
  const head = isNumber
    ? [title, "rows", "RMSE", "MAE", "R²", "calibration"]
    : [title, "rows", "positives", "AUC", "log loss", "NE", "calibration"];
  const cells = rows.map(([name, found]) => {
    const { samples, positives, auc, logLoss, normalizedEntropy, rmse, mae, r2 } = found;
    const figures = isNumber ? [rmse, mae, r2] : [auc, logLoss, normalizedEntropy];
    const counts = isNumber ? [count(samples)] : [count(samples), count(positives)];
    return [shown(name), ...counts, ...[...figures, found.calibration].map(metric)];
  });
  return [head, ...cells];
}

/** A value in one line without control characters, at most 40 characters long. */
function shown(value: string): string {
  const plain = value.replace(/\p{C}/gu, "?");
  return plain.length > 40 ? `${plain.slice(0, 37)}...` : plain;
}

function othersName({ values, isMore }: NonNullable<ColumnSlices["others"]>): string {
  return isMore
    ? `others (more than ${count(values)} values)`
    : `others (${count(values)} ${values === 1 ? "value" : "values"})`;
}

/** A table for each task, the most important feature first. */
export function importanceLines({ tasks, seed, metrics }: ImportanceReport): string[] {
  return tasks.flatMap(({ task, features }) => {
    const { auc, logLoss, rmse } = metrics.tasks?.[task] ?? metrics;
    const of = tasks.length > 1 ? ` · ${task}` : "";
    const isNumber = rmse !== undefined;
    const head = isNumber ? ["RMSE rises by"] : ["AUC falls by", "log loss rises by"];
    const lines = features.map(({ feature, aucDrop, logLossRise, rmseRise }) => {
      const figures = isNumber ? [rmseRise] : [aucDrop, logLossRise];
      return [shown(feature), ...figures.map(metric)];
    });
    const now = isNumber
      ? `RMSE ${metric(rmse)}`
      : `AUC ${metric(auc)} and log loss ${metric(logLoss)}`;
    const title = `Importance${of}`;
    return [
      "",
      ...aligned([[title, ...head], ...lines]),
      `Each line: ${now} get worse by this much when the feature's values are permuted among the ` +
        `rows (seed ${seed}).`,
    ];
  });
}

/** The names of the tasks; one empty name where there is only one task. */
function tasksOf(metrics: Metrics | undefined): string[] {
  return Object.keys(metrics?.tasks ?? { "": undefined });
}

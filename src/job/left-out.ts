// Completes a job with options that follow from its other options: the tables of its columns, the
// columns of its tables, and the number of dense features. A job that states both is checked for
// contradictions (job.ts).

import { isTable } from "../data/data-kinds.ts";
import { dataOptions, type ResolvedDataOptions } from "../data/options.ts";
import { nameOfLabel } from "../data/targets.ts";
import { criteoFeatures, denseOf } from "../data/text/columns.ts";
import { categoricalOf } from "../data/text/match-features.ts";
import { InvalidOptionError } from "../errors/errors.ts";
import { sharedTableOptions } from "../model/kinds/common-options.ts";
import { checkOptions } from "../ports/check-options.ts";
import { type Fields, isSection } from "../ports/written.ts";

/**
 * Returns a job as a user wrote it, with the options of model and data that follow from each other:
 *
 *   data.categorical  left out: the columns of `model.features`, or of `model.tables` by name
 *   model.tables      with `model.table`: one for each table of `model.features`, or for each
 *                     categorical column, in their order
 *   model.dense       left out: the dense features of the data
 *   data.dense        of generated data, left out: `model.dense`
 *
 *   data.numericLabels  left out: the labels whose loss is `mse`
 *   data.missingLabels  left out: the rules of the tasks' `missing`
 *
 * Sections of a wrong shape stay unchanged: the job's schema refuses them.
 * @throws InvalidOptionError where a column has no table, and `model.table` does not have its shape
 */
export function withLeftOut(options: unknown): unknown {
  if (!isSection(options) || !isSection(options.model) || !isSection(options.data)) return options;
  const { table, ...model } = options.model;
  const columns = withColumns(options.data, model);
  const data = withMissingLabels(withNumericLabels(columns, model, options.loss), model);
  const isTabled = table !== undefined || model.tables === undefined;
  if (!isTabled && model.dense !== undefined) return { ...options, data };
  const resolved = checkOptions(dataOptions, data, "data");
  return {
    ...options,
    data,
    model: {
      ...model,
      ...(isTabled ? { tables: tablesOf(resolved, model, table) } : {}),
      ...(model.dense === undefined ? { dense: denseOf(resolved) } : {}),
    },
  };
}

function withColumns(data: Fields, { tables, features, dense }: Fields): Fields {
  const isNamed = data.kind === "csv" || data.kind === "jsonl" || isTable(data);
  if (isNamed && data.categorical === undefined) {
    if (Array.isArray(features)) return { ...data, categorical: distinct(features.map(columnOf)) };
    if (Array.isArray(tables)) return { ...data, categorical: tables.map(nameOf) };
  }
  const isDenseLeftOut = data.kind === "synthetic" && data.dense === undefined;
  return isDenseLeftOut && dense !== undefined ? { ...data, dense } : data;
}

/** The data with `numericLabels`: the labels whose task, or whose job, has the loss `mse`. */
function withNumericLabels(data: Fields, { tasks }: Fields, loss: unknown): Fields {
  const isSynthetic = data.kind === "synthetic";
  const isNamed = data.kind === "csv" || data.kind === "jsonl" || isTable(data);
  if (data.numericLabels !== undefined || !(isNamed || isSynthetic)) return data;
  const isMse = (one: unknown) => isSection(one) && one.kind === "mse";
  const losses = Array.isArray(tasks)
    ? tasks.map((task) => (isSection(task) && task.loss !== undefined ? task.loss : loss))
    : [loss];
  const names = isSynthetic ? losses.map((_, i) => nameOfLabel(i)) : [data.label].flat();
  const numericLabels = names.filter((name, i) => typeof name === "string" && isMse(losses[i]));
  return numericLabels.length === 0 ? data : { ...data, numericLabels };
}

/** The data with `missingLabels`: the rules for missing values of the tasks of these labels. */
function withMissingLabels(data: Fields, { tasks }: Fields): Fields {
  if (data.missingLabels !== undefined || !Array.isArray(tasks)) return data;
  const rules = tasks.flatMap((task, i) => {
    const name = data.kind === "synthetic" ? nameOfLabel(i) : [data.label].flat()[i];
    const isSaid = isSection(task) && task.missing !== undefined;
    return isSaid && typeof name === "string" ? [[name, task.missing] as const] : [];
  });
  return rules.length === 0 ? data : { ...data, missingLabels: Object.fromEntries(rules) };
}

/**
 * A table for each name that features look up, in their order; then the tables that no feature
 * looks up.
 */
function tablesOf(
  data: ResolvedDataOptions,
  { tables: written, features }: Fields,
  table: unknown,
): unknown {
  if (written !== undefined && !Array.isArray(written)) return written;
  if (table !== undefined) checkOptions(sharedTableOptions, table, "model.table");
  const shared = isSection(table) ? table : {};
  const own = new Map((written ?? []).map((one) => [nameOf(one), one]));
  const names = Array.isArray(features)
    ? distinct(features.map(tableNameOf)).filter((name) => typeof name === "string")
    : columnTables(data);
  for (const name of names) {
    if (own.has(name) || (shared.rows !== undefined && shared.dim !== undefined)) continue;
    const message =
      "Expected `model.table` to have `rows` and `dim`, the shape of each table that is not in " +
      `\`model.tables\`, as the column of \`${name}\` has no table there`;
    throw new InvalidOptionError("model.table", message);
  }
  const others = (written ?? []).filter((one) => !names.includes(nameOf(one) as string));
  const fed = names.map((name) => own.get(name) ?? { name });
  return [...fed, ...others].map((one) => (isSection(one) ? { ...shared, ...one } : one));
}

/** The names of the tables that the columns of the data feed. */
function columnTables(data: ResolvedDataOptions): string[] {
  switch (data.kind) {
    case "criteo-tsv":
      return Array.from({ length: criteoFeatures }, (_, index) => `C${index + 1}`);
    case "csv":
    case "jsonl":
    case "arrow":
    case "parquet":
      return categoricalOf(data).map(({ table }) => table);
    case "synthetic":
      return [];
    default:
      return data satisfies never;
  }
}

function columnOf(feature: unknown): unknown {
  return isSection(feature) ? feature.column : undefined;
}

/** The name of the table that a feature looks up. */
function tableNameOf(feature: unknown): unknown {
  return isSection(feature) ? (feature.table ?? feature.column) : undefined;
}

function distinct(names: readonly unknown[]): unknown[] {
  return [...new Set(names)];
}

function nameOf(table: unknown): unknown {
  return isSection(table) ? table.name : undefined;
}

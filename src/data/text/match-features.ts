// Matches columns of the data with categorical features of the model. Without named features, each
// table is a feature, fed by the column that has the table's name or names the table in its
// options. With named features, each feature names its column.

import { InvalidOptionError } from "../../errors/errors.ts";
import { expected } from "../../ports/check-options.ts";
import { nearestName } from "../../ports/nearest-name.ts";
import { isTable, namesColumns, transformsOf } from "../data-kinds.ts";
import type { ResolvedColumnOptions, ResolvedDataOptions, TableShape } from "../options.ts";
import { targetColumnsOf } from "../targets.ts";
import { planOf } from "../transforms/plan.ts";

/** Options of a column of ids, common to every kind of data. */
export interface CategoricalColumn {
  readonly column: string;
  readonly table: string;
  readonly ids: "hash" | "integer";
  readonly offset: number;
  readonly list?: "plain" | "weighted" | undefined;
  readonly separator?: string | undefined;
  readonly weightSeparator?: string | undefined;
  readonly missing?: "own" | "empty" | "reject" | undefined;
}

/** The columns of ids that a job names, in order. */
export function categoricalOf(
  data: Pick<ResolvedColumnOptions, "categorical">,
): readonly CategoricalColumn[] {
  return data.categorical;
}

/** For each feature, whether its ids have weights. */
export function weightedOf(
  data: ResolvedDataOptions,
  tables: readonly Pick<TableShape, "name" | "column">[],
): boolean[] {
  const { outputs } = planOf(transformsOf(data) ?? []);
  const isWeighted = ({ column, weightSeparator, list }: CategoricalColumn) => {
    const isMade = outputs.get(column)?.isWeighted === true;
    return weightSeparator !== undefined || list === "weighted" || isMade;
  };
  return tables.map((shape): boolean =>
    namesColumns(data)
      ? categoricalOf(data).some((one) => feeds(one, shape) && isWeighted(one))
      : data.kind === "synthetic" && data.weights !== undefined,
  );
}

/**
 * Checks that further data of a job, in the section `option`, have weights for the same tables as
 * the training data.
 */
export function checkWeights(
  data: ResolvedDataOptions,
  option: string,
  training: ResolvedDataOptions,
  tables: readonly Pick<TableShape, "name" | "column">[],
): void {
  const trained = weightedOf(training, tables);
  const differs = weightedOf(data, tables).findIndex((weighted, i) => weighted !== trained[i]);
  if (differs < 0) return;
  const message =
    `Expected \`${option}\` to have ${trained[differs] ? "weights" : "no weights"} for table ` +
    `\`${tables[differs]?.name}\`, as the training data has`;
  throw new InvalidOptionError(option, message);
}
/** Whether a column feeds a feature. */
export function feeds(
  { column, table }: Pick<CategoricalColumn, "column" | "table">,
  shape: Pick<TableShape, "name" | "column">,
): boolean {
  return shape.column === undefined ? table === shape.name : column === shape.column;
}

/** For each feature, in order, the column that feeds it. Each column feeds at least one. */
export function matchTables(
  columns: readonly CategoricalColumn[],
  tables: readonly TableShape[],
): {
  source: CategoricalColumn;
  index: number;
  rows: number;
  isWide: boolean;
  seed: number;
  beyond: NonNullable<TableShape["ids"]>;
}[] {
  const isByColumn = tables.some(({ column }) => column !== undefined);
  const unused = isByColumn ? columnsByName(columns) : columnsByTable(columns);
  const all = new Map(unused);
  const matched = tables.map((shape, place) => {
    const { name, column, rows, idBits, ids: beyond = "reject" } = shape;
    const index = all.get(column ?? name);
    const source = index === undefined ? undefined : columns[index];
    if (index === undefined || source === undefined) throw noColumn(columns, shape, place);
    const path = isByColumn ? `model.features[${place}]: the table` : `model.tables[${place}]`;
    if (source.ids === "hash" && rows < 2) {
      throw expected(`${path}.rows`, "at least 2 for hashed ids", rows);
    }
    const isWide = idBits === 64;
    if (source.ids === "hash" && isWide) {
      const wanted = `32, as its column does not have \`ids: "integer"\``;
      throw expected(`${path}.idBits`, wanted, idBits);
    }
    unused.delete(column ?? name);
    return { source, index, rows, isWide, seed: shape.table ?? place, beyond };
  });
  for (const [table, index] of unused) {
    const path = `data.categorical[${index}]`;
    if (isByColumn) {
      const message =
        `Column \`${columns[index]?.column}\` feeds no feature: add one to \`model.features\`, ` +
        "or drop the column";
      throw new InvalidOptionError(path, message);
    }
    const names = tables.map(({ name }) => `\`${name}\``).join(", ") || "none";
    const message =
      `Column \`${columns[index]?.column}\` has no table \`${table}\` in the model: ` +
      `add the table, or drop the column; the tables are ${names}`;
    throw new InvalidOptionError(path, message);
  }
  return matched;
}

/**
 * Indices of the columns by the table that each feeds. @throws InvalidOptionError if two columns
 * feed the same table
 */
function columnsByTable(columns: readonly CategoricalColumn[]): Map<string, number> {
  const byTable = new Map<string, number>();
  columns.forEach(({ column, table }, index) => {
    if (byTable.has(table)) {
      const message =
        `Two columns feed the table \`${table}\`: name another one for \`${column}\`, or say ` +
        "which features look it up, with `model.features`";
      throw new InvalidOptionError(`data.categorical[${index}]`, message);
    }
    byTable.set(table, index);
  });
  return byTable;
}

/** Indices of the columns by name, for named features. @throws InvalidOptionError */
function columnsByName(columns: readonly CategoricalColumn[]): Map<string, number> {
  const byName = new Map<string, number>();
  columns.forEach(({ column, table }, index) => {
    const path = `data.categorical[${index}]`;
    if (byName.has(column)) {
      throw new InvalidOptionError(path, `Column \`${column}\` is there twice: drop one`);
    }
    if (table !== column) {
      throw expected(`${path}.table`, "left out, as `model.features` says which table", table);
    }
    byName.set(column, index);
  });
  return byName;
}

function noColumn(
  columns: readonly CategoricalColumn[],
  { name, column }: TableShape,
  place: number,
): InvalidOptionError {
  if (column !== undefined) {
    const names = columns.map((one) => one.column);
    const near = nearestName(column, names);
    const advice = near === undefined ? "" : `; did you mean \`${near}\`?`;
    const listed = names.map((one) => `\`${one}\``).join(", ") || "none";
    const message =
      `Feature \`${name}\` has no column \`${column}\` in the data: the columns of ` +
      `\`data.categorical\` are ${listed}${advice}`;
    return new InvalidOptionError(`model.features[${place}].column`, message);
  }
  const names = columns.map(({ table }) => `\`${table}\``).join(", ") || "none";
  const message =
    `Table \`${name}\` has no column in the data: add one to \`data.categorical\`, ` +
    `or drop the table; the columns feed ${names}`;
  return new InvalidOptionError(`model.tables[${place}].name`, message);
}

/**
 * File columns of labels, weight, group and features, and inputs of transforms and `where`; not the
 * outputs of transforms.
 */
export function dataColumnsOf(data: ResolvedDataOptions): string[] {
  if (data.kind === "synthetic" || data.kind === "criteo-tsv") return [];
  const { sources, outputs } = planOf(transformsOf(data) ?? []);
  const features = [...data.dense, ...categoricalOf(data)].map(({ column }) => column);
  const where = isTable(data) ? (data.where ?? []) : [];
  const read = [...sources, ...where].map(({ column }) => column);
  const own = features.filter((name) => !outputs.has(name));
  return [...new Set([...targetColumnsOf(data), ...own, ...read])];
}

// Maps the fields of a line to features. Features are in the order of the model's tables. A
// categorical column feeds the table with its own name, or the table that the options name.

import { InvalidOptionError } from "../../errors/errors.ts";
import { expected } from "../../ports/check-options.ts";
import type {
  ResolvedCriteoTsvOptions,
  ResolvedCsvOptions,
  ResolvedDataOptions,
  TableShape,
} from "../options.ts";

/** Integer features of a Criteo line. */
export const criteoDense = 13;
/** Categorical features of a Criteo line. */
export const criteoFeatures = 26;

/** For each table, whether the data has 64-bit ids for it: a wide feature. */
export function wideOf(tables: readonly Pick<TableShape, "idBits">[]): boolean[] {
  return tables.map(({ idBits }) => idBits === 64);
}

/** How a dense field is read: an empty field is 0. */
export interface DenseField {
  readonly field: number;
  readonly name: string;
  readonly isInteger: boolean;
  readonly log: boolean;
}

/** How a categorical field is read, for one table. */
export interface CategoricalField {
  readonly field: number;
  readonly name: string;
  readonly rows: number;
  /** Whether ids have 64 bits. Any id is then valid; the table's policy decides about its row. */
  readonly isWide: boolean;
  readonly ids: "hash" | "integer";
  readonly offset: number;
  readonly separator: string | undefined;
  /** The character between an id and its weight; undefined where ids have no weights. */
  readonly weightSeparator: string | undefined;
}

/** The layout of a line. */
export interface Columns {
  /** Number of fields in a valid line. */
  readonly fields: number;
  readonly delimiter: string;
  /** Whether a field may be quoted. */
  readonly hasQuotes: boolean;
  readonly label: number;
  readonly dense: readonly DenseField[];
  /** In the order of the model's tables. */
  readonly categorical: readonly CategoricalField[];
}

/** The columns of a Criteo line. @throws InvalidOptionError where the tables are not C1..C26 */
export function criteoColumns(tables: readonly TableShape[]): Columns {
  const columns = Array.from({ length: criteoFeatures }, (_, index) => ({
    column: `C${index + 1}`,
    table: `C${index + 1}`,
    ids: "hash" as const,
    offset: 0,
  }));
  const dense = Array.from({ length: criteoDense }, (_, index) => ({
    field: 1 + index,
    name: `I${index + 1}`,
    isInteger: true,
    log: true,
  }));
  return {
    fields: 1 + criteoDense + criteoFeatures,
    delimiter: "\t",
    hasQuotes: false,
    label: 0,
    dense,
    categorical: matchTables(columns, tables).map(({ source, index, ...table }) => ({
      field: 1 + criteoDense + index,
      name: source.column,
      ...table,
      ids: source.ids,
      offset: source.offset,
      separator: undefined,
      weightSeparator: undefined,
    })),
  };
}

/**
 * The columns of a CSV file with this header.
 * @throws InvalidOptionError where a column is missing, or tables and columns do not match
 */
export function csvColumns(
  options: ResolvedCsvOptions,
  tables: readonly TableShape[],
  path: string,
  header: readonly string[],
): Columns {
  const fieldOf = (option: string, name: string): number => {
    const field = header.indexOf(name);
    if (field >= 0) return field;
    const names = header.map((column) => `\`${column}\``).join(", ");
    const message =
      `\`${option}\` names the column \`${name}\`, which ${path} does not have; ` +
      `it has ${names}`;
    throw new InvalidOptionError(option, message);
  };
  return {
    fields: header.length,
    delimiter: options.delimiter,
    hasQuotes: true,
    label: fieldOf("data.label", options.label),
    dense: options.dense.map(({ column, log }, index) => ({
      field: fieldOf(`data.dense[${index}]`, column),
      name: column,
      isInteger: false,
      log,
    })),
    categorical: matchTables(options.categorical, tables).map(({ source, index, ...table }) => ({
      field: fieldOf(`data.categorical[${index}]`, source.column),
      name: source.column,
      ...table,
      ids: source.ids,
      offset: source.offset,
      separator: source.separator,
      weightSeparator: source.weightSeparator,
    })),
  };
}

/** Dense features of a sample. */
export function denseOf(options: ResolvedDataOptions): number {
  switch (options.kind) {
    case "criteo-tsv":
      return criteoDense;
    case "csv":
      return options.dense.length;
    case "synthetic":
      return options.dense;
    default:
      return options satisfies never;
  }
}

/** Throws where text with these options cannot feed these tables, before any file is read. */
export function checkTables(
  options: ResolvedCriteoTsvOptions | ResolvedCsvOptions,
  tables: readonly TableShape[],
): void {
  if (options.kind === "criteo-tsv") criteoColumns(tables);
  else matchTables(options.categorical, tables);
}

/** For each table, whether the ids of its feature come with weights. */
export function weightedOf(
  data: ResolvedDataOptions,
  tables: readonly Pick<TableShape, "name">[],
): boolean[] {
  const isWeighted = (name: string): boolean =>
    data.kind === "csv"
      ? data.categorical.some((one) => one.table === name && one.weightSeparator !== undefined)
      : data.kind === "synthetic" && data.weights !== undefined;
  return tables.map(({ name }) => isWeighted(name));
}

/** Throws where further data of a job, named by `option`, have weights for other tables. */
export function checkWeights(
  data: ResolvedDataOptions,
  option: string,
  training: ResolvedDataOptions,
  tables: readonly Pick<TableShape, "name">[],
): void {
  const trained = weightedOf(training, tables);
  const differs = weightedOf(data, tables).findIndex((weighted, i) => weighted !== trained[i]);
  if (differs < 0) return;
  const message =
    `Expected \`${option}\` to have ${trained[differs] ? "weights" : "no weights"} for table ` +
    `\`${tables[differs]?.name}\`, as the training data has`;
  throw new InvalidOptionError(option, message);
}

type CategoricalColumn = ResolvedCsvOptions["categorical"][number];

/** For each table, in order, the column that feeds it. */
function matchTables(
  columns: readonly CategoricalColumn[],
  tables: readonly TableShape[],
): { source: CategoricalColumn; index: number; rows: number; isWide: boolean }[] {
  const unused = new Map<string, number>();
  columns.forEach(({ column, table }, index) => {
    if (unused.has(table)) {
      const message = `Two columns feed the table \`${table}\`: name another one for \`${column}\``;
      throw new InvalidOptionError(`data.categorical[${index}]`, message);
    }
    unused.set(table, index);
  });
  const matched = tables.map(({ name, rows, idBits }, place) => {
    const index = unused.get(name);
    const source = index === undefined ? undefined : columns[index];
    if (index === undefined || source === undefined) {
      const names = columns.map(({ table }) => `\`${table}\``).join(", ") || "none";
      const message =
        `Table \`${name}\` has no column in the data: add one to \`data.categorical\`, ` +
        `or drop the table; the columns feed ${names}`;
      throw new InvalidOptionError(`model.tables[${place}].name`, message);
    }
    if (source.ids === "hash" && rows < 2) {
      throw expected(`model.tables[${place}].rows`, "at least 2 for hashed ids", rows);
    }
    const isWide = idBits === 64;
    if (source.ids === "hash" && isWide) {
      const wanted = `32, as its column has not \`ids: "integer"\``;
      throw expected(`model.tables[${place}].idBits`, wanted, idBits);
    }
    unused.delete(name);
    return { source, index, rows, isWide };
  });
  for (const [table, index] of unused) {
    const names = tables.map(({ name }) => `\`${name}\``).join(", ") || "none";
    const message =
      `Column \`${columns[index]?.column}\` has no table \`${table}\` in the model: ` +
      `add the table, or drop the column; the tables are ${names}`;
    throw new InvalidOptionError(`data.categorical[${index}]`, message);
  }
  return matched;
}

// Maps the fields of a line to features. Categorical features are in the order of the model's
// tables; a column feeds the table of its own name, or the table that the options name.

import { InvalidOptionError } from "../../errors/errors.ts";
import { type FieldColumns, namedColumns } from "../columnar/named-columns.ts";
import type {
  ResolvedColumnOptions,
  ResolvedCsvOptions,
  ResolvedDataOptions,
  ResolvedTextOptions,
  TableShape,
} from "../options.ts";
import type { KeyColumn } from "../split-keys.ts";
import { labelsOf, targetColumnsOf } from "../targets.ts";
import { planOf } from "../transforms/plan.ts";
import type { JsonFields } from "./json-lines.ts";
import { labelReader } from "./labels.ts";
import { categoricalOf, matchTables } from "./match-features.ts";

/** Integer features of a Criteo line. */
export const criteoDense = 13;
/** Categorical features of a Criteo line. */
export const criteoFeatures = 26;

/** For each table, whether its ids in the data have 64 bits (a wide feature). */
export function wideOf(tables: readonly Pick<TableShape, "idBits">[]): boolean[] {
  return tables.map(({ idBits }) => idBits === 64);
}

/** The layout of a line. */
export interface Columns extends FieldColumns {
  /** Number of fields in a valid line. */
  readonly fields: number;
  readonly delimiter: string;
  /** Whether a field may be quoted. */
  readonly hasQuotes: boolean;
  /** How a JSON line becomes fields; undefined for delimited text. */
  readonly json?: JsonFields | undefined;
}

/** The columns of a Criteo line. @throws InvalidOptionError if the tables are not C1..C26 */
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
    at: index,
    isInteger: true,
    log: true,
    missing: 0 as const,
    unreadable: "reject" as const,
  }));
  return {
    fields: 1 + criteoDense + criteoFeatures,
    delimiter: "\t",
    hasQuotes: false,
    labels: [0],
    readLabels: [labelReader(undefined)],
    dense,
    categorical: matchTables(columns, tables).map(({ source, index, ...table }) => ({
      field: 1 + criteoDense + index,
      name: source.column,
      ...table,
      ids: source.ids,
      offset: source.offset,
      separator: undefined,
      weightSeparator: undefined,
      missing: "own" as const,
    })),
  };
}

/**
 * The problem of a header that is a single column and contains another delimiter: then the
 * delimiter is wrong, not the column names.
 */
function delimiterProblem(
  { delimiter }: ResolvedCsvOptions,
  path: string,
  header: readonly string[],
): InvalidOptionError | undefined {
  const [only = "", ...others] = header;
  const other = [",", "\t", ";", "|"].find((one) => one !== delimiter && only.includes(one));
  if (others.length > 0 || other === undefined) return undefined;
  const message =
    `Expected the columns of ${path} to be separated by ${JSON.stringify(delimiter)}, and its ` +
    `header is one column, \`${only}\`: did you mean \`delimiter: ${JSON.stringify(other)}\`?`;
  return new InvalidOptionError("data.delimiter", message);
}

/** The problem of a header without any of the columns: it is a line of data, or of another file. */
function headerProblem(
  options: ResolvedCsvOptions,
  path: string,
  header: readonly string[],
): InvalidOptionError {
  const listed = (names: readonly string[]) => {
    const shown = names.slice(0, 8).map((name) => `\`${name}\``);
    return names.length > shown.length ? `${shown.join(", ")}, …` : shown.join(", ");
  };
  const features = [...options.dense, ...options.categorical];
  const { sources, outputs } = planOf(options.transforms ?? []);
  const read = [...features, ...sources].map(({ column }) => column);
  const names = [...new Set([...targetColumnsOf(options), ...read])].filter((name) => {
    return !outputs.has(name);
  });
  const message =
    `Expected the first line of ${path} to name the columns ${listed(names)}, got ` +
    `${listed(header)}: does the file have a header?`;
  return new InvalidOptionError("data.paths", message);
}

/**
 * The columns of a CSV file with this header. `lacking`: columns that the file may lack, such as
 * labels in a file to predict.
 * @throws InvalidOptionError if a column is missing, or tables and columns do not match
 */
export function csvColumns(
  options: ResolvedCsvOptions,
  tables: readonly TableShape[],
  path: string,
  header: readonly string[],
  key?: KeyColumn,
  lacking: readonly string[] = [],
): Columns {
  const names = [...header, ...lacking];
  const { columns, problems, asked } = namedColumns(options, tables, { path, header: names }, key);
  if (problems.length > 0) {
    throw (
      delimiterProblem(options, path, header) ??
      (problems.length === asked && asked > 1
        ? headerProblem(options, path, header)
        : InvalidOptionError.ofAll(problems))
    );
  }
  const { delimiter } = options;
  return { ...columns, fields: header.length, delimiter, hasQuotes: true };
}

/** Number of dense features of a sample. A column with `missing: "indicator"` makes two. */
export function denseOf(options: ResolvedDataOptions): number {
  switch (options.kind) {
    case "criteo-tsv":
      return criteoDense;
    case "csv":
    case "jsonl":
    case "arrow":
    case "parquet":
      return options.dense.reduce((sum, { missing }) => sum + (missing === "indicator" ? 2 : 1), 0);
    case "synthetic":
      return options.dense;
    default:
      return options satisfies never;
  }
}

/** The dense features whose missing values are filled with the mean of the training data. */
export function meanFeatures(columns: Pick<Columns, "dense">): number[] {
  return columns.dense.flatMap(({ at, missing }) => (missing === "mean" ? at : []));
}

/** Checks, before any file is read, that files with these options can feed these tables. */
export function checkTables(
  options: ResolvedTextOptions | ResolvedColumnOptions,
  tables: readonly TableShape[],
): void {
  if (options.kind === "criteo-tsv") {
    criteoColumns(tables);
    return;
  }
  checkLabel(options);
  matchTables(categoricalOf(options), tables);
}

/** Throws if a label is also a feature, unless `labelAsFeature` allows it. */
function checkLabel(options: ResolvedColumnOptions): void {
  const { labelAsFeature, dense, categorical } = options;
  if (labelAsFeature) return;
  const labels = labelsOf(options);
  for (const [option, columns] of Object.entries({ dense, categorical })) {
    const index = columns.findIndex(({ column }) => labels.includes(column));
    if (index < 0) continue;
    const path = `data.${option}[${index}]`;
    const message =
      `Expected \`${path}\` to be another column than the label, ` +
      `\`${columns[index]?.column}\`: a model that reads ` +
      "the label predicts nothing; take it out, or say `labelAsFeature: true` where it is meant";
    throw new InvalidOptionError(path, message);
  }
}

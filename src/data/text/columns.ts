// Maps the fields of a line to features. Categorical features are in the order of the model's
// tables; a column feeds the table of its own name, or the table that the options name.

import { InputUnusableError, InvalidOptionError } from "../../errors/errors.ts";
import { type FieldColumns, missing, namedColumns } from "../columnar/named-columns.ts";
import type {
  ResolvedColumnOptions,
  ResolvedCsvOptions,
  ResolvedDataOptions,
  ResolvedJsonLinesOptions,
  ResolvedTextOptions,
  TableShape,
} from "../options.ts";
import { type KeyColumn, optionOfKey } from "../split-keys.ts";
import { labelsOf, targetColumnsOf } from "../targets.ts";
import { planOf } from "../transforms/plan.ts";
import { decodeText, type LineFault } from "./faults.ts";
import { type JsonFields, jsonFields, splitAsJson } from "./json-lines.ts";
import { labelReader } from "./labels.ts";
import { splitLine } from "./line-decoder.ts";
import { categoricalOf, dataColumnsOf, matchTables } from "./match-features.ts";

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
  /**
   * A name for each field; then the columns that the file may lack, and the outputs of transforms.
   */
  readonly header: readonly string[];
  readonly delimiter: string;
  /** Whether a field may be quoted. */
  readonly hasQuotes: boolean;
  /** How a JSON line becomes fields; undefined for delimited text. */
  readonly json?: JsonFields | undefined;
}

/**
 * The columns of a file without a header; undefined if the format has a header, which must be read
 * first. @throws InvalidOptionError if tables and columns do not match
 */
export function columnsAtOnce(
  options: ResolvedTextOptions,
  tables: readonly TableShape[],
  path: string,
  key?: KeyColumn,
): Columns | undefined {
  switch (options.kind) {
    case "csv":
      return undefined;
    case "criteo-tsv":
      return { ...criteoColumns(tables), key: key && criteoField(key, path) };
    case "jsonl":
      return jsonColumns(options, tables, path, key);
    default:
      return options satisfies never;
  }
}

/** The names of a Criteo line's fields in the documentation of the data set; it has no header. */
const criteoNames = [
  "label",
  ...Array.from({ length: criteoDense }, (_, i) => `I${i + 1}`),
  ...Array.from({ length: criteoFeatures }, (_, i) => `C${i + 1}`),
];

function criteoField(key: KeyColumn, path: string): number {
  const field = criteoNames.indexOf(key.column);
  if (field >= 0) return field;
  const option = optionOfKey(key);
  throw new InvalidOptionError(option, missing(option, key.column, path, criteoNames, []));
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
    fields: criteoNames.length,
    header: criteoNames,
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
  const message =
    `Expected the first line of ${path} to name the columns ${listed(dataColumnsOf(options))}, got ` +
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
  const made = planOf(options.transforms ?? []).outputs.keys();
  const { columns, problems, named } = namedColumns(options, tables, { path, header: names }, key);
  if (problems.length > 0) {
    throw (
      delimiterProblem(options, path, header) ??
      (problems.length === named && named > 1
        ? headerProblem(options, path, header)
        : InvalidOptionError.ofAll(problems))
    );
  }
  const { delimiter } = options;
  const line = { fields: header.length, delimiter, hasQuotes: true };
  return { ...columns, ...line, header: [...names, ...made] };
}

/**
 * The column names in the first line of the CSV file at `path`. `line` is undefined if it is too
 * long.
 * @throws InputUnusableError if the line is unusable, or two columns have the same name
 */
export function headerNames(path: string, line: string | undefined, delimiter: string): string[] {
  const refuse = (why: string) => {
    return new InputUnusableError(path, `The header of the data file ${path} is unusable: ${why}`);
  };
  const fields = line === undefined ? "it is too long" : splitLine(line, delimiter, true);
  if (typeof fields === "string") throw refuse(fields);
  const names = fields.map(decodeText);
  const seen = new Set<string>();
  for (const name of names) {
    // Columns without a name are never referenced, so they may repeat.
    if (seen.has(name) && name !== "") {
      const places = names.flatMap((other, i) => (other === name ? i + 1 : []));
      throw refuse(
        `it has the column \`${name}\` more than once (fields ${places.join(", ")}); ` +
          "give each column a name of its own",
      );
    }
    seen.add(name);
  }
  return names;
}

/**
 * The columns of JSON Lines that the job names, because lines have neither a header nor an order of
 * keys. A column that a feature and a transform read differently, as a list and as a single value,
 * becomes two fields.
 */
export function jsonColumns(
  options: ResolvedJsonLinesOptions,
  tables: readonly TableShape[],
  path: string,
  key?: KeyColumn,
): Columns {
  const { sources, outputs } = planOf(options.transforms ?? []);
  const ids = categoricalOf(options);
  const dense = options.dense.map(({ column }) => column);
  const named = [...targetColumnsOf(options), ...dense, ...ids.map(({ column }) => column)];
  const given = [...named, ...(key === undefined ? [] : [key.column])];
  const names = [...new Set(given)].filter((name) => !outputs.has(name));
  const lists = names.map((name) => ids.find(({ column }) => column === name)?.list);
  const places = sources.map(({ column, list }) => {
    const place = names.findIndex((name, i) => name === column && lists[i] === list);
    if (place >= 0) return place;
    lists.push(list);
    return names.push(column) - 1;
  });
  const { columns, problems } = namedColumns(options, tables, { path, header: names }, key);
  if (problems.length > 0) throw InvalidOptionError.ofAll(problems);
  const categorical = columns.categorical.map((column) => {
    return column.isMade === true ? column : splitAsJson(column);
  });
  const made = [...outputs.keys()];
  // No column has a name with control characters.
  const own = names.map((name, i) => (names.indexOf(name) === i ? name : `${name}\0${i}`));
  const line = { fields: names.length, delimiter: ",", hasQuotes: false };
  const json = { names, lists, made };
  return { ...columns, categorical, sources: places, ...line, header: [...own, ...made], json };
}

/** Splits a line into its fields; returns the line's fault if their number is wrong. */
export function fieldsOf(line: string, columns: Columns): string[] | LineFault {
  if (columns.json !== undefined) return jsonFields(line, columns.json);
  const fields = splitLine(line, columns.delimiter, columns.hasQuotes);
  if (typeof fields === "string") return { kind: fields };
  return fields.length === columns.fields
    ? fields
    : { kind: `expected ${columns.fields} fields`, got: String(fields.length) };
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

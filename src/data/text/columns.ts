// Maps the fields of a line to features. Features are in the order of the model's tables. A
// categorical column feeds the table with its own name, or the table that the options name.

import { InvalidOptionError } from "../../errors/errors.ts";
import { nearestName } from "../../ports/nearest-name.ts";
import type {
  ResolvedCriteoTsvOptions,
  ResolvedCsvOptions,
  ResolvedDataOptions,
  TableShape,
} from "../options.ts";
import type { KeyColumn } from "../split-options.ts";
import { areNumeric, labelsOf, targetColumnsOf } from "../targets.ts";
import { type LabelReader, labelReader, numberReader } from "./labels.ts";
import { matchTables } from "./match-features.ts";

/** Integer features of a Criteo line. */
export const criteoDense = 13;
/** Categorical features of a Criteo line. */
export const criteoFeatures = 26;

/** For each table, whether the data has 64-bit ids for it: a wide feature. */
export function wideOf(tables: readonly Pick<TableShape, "idBits">[]): boolean[] {
  return tables.map(({ idBits }) => idBits === 64);
}

/** How a dense field is read. */
export interface DenseField {
  readonly field: number;
  readonly name: string;
  /** The dense feature of its value; with `indicator`, the next one tells what is missing. */
  readonly at: number;
  readonly isInteger: boolean;
  readonly log: boolean;
  /** What a missing value becomes; the mean is filled in later. */
  readonly missing: 0 | "mean" | "indicator" | "reject";
  /** What text that is no number is. */
  readonly unreadable: "missing" | "reject";
}

/** How a categorical field is read, for one table. */
export interface CategoricalField {
  readonly field: number;
  readonly name: string;
  readonly rows: number;
  /** Whether ids have 64 bits. Any id is then valid; the table's policy decides about its row. */
  readonly isWide: boolean;
  readonly ids: "hash" | "integer";
  /** Seed of hashed text: the index of the table. */
  readonly seed: number;
  /** The table's policy for integer ids beyond its rows; with `reject`, the line is bad. */
  readonly beyond: "reject" | "clamp" | "hash";
  readonly offset: number;
  readonly separator: string | undefined;
  /** The character between an id and its weight; undefined where ids have no weights. */
  readonly weightSeparator: string | undefined;
  /** What a field without an id becomes: row 0, an empty bag, or a bad line. */
  readonly missing: "own" | "empty" | "reject";
}

/** A field that is no feature. */
export interface TargetField {
  readonly field: number;
  readonly name: string;
}

/** The layout of a line. */
export interface Columns {
  /** Number of fields in a valid line. */
  readonly fields: number;
  readonly delimiter: string;
  /** Whether a field may be quoted. */
  readonly hasQuotes: boolean;
  /** The fields of the labels. */
  readonly labels: readonly number[];
  /** Reads each of them. */
  readonly readLabels: readonly LabelReader[];
  /** Whether each is a number; left out: all are classes. */
  readonly numeric?: readonly boolean[] | undefined;
  /** The field of the weight of a sample's loss; undefined: it has none. */
  readonly weight?: TargetField | undefined;
  /** The field of a sample's group; undefined: it has none. */
  readonly group?: TargetField | undefined;
  readonly dense: readonly DenseField[];
  /** In the order of the model's tables. */
  readonly categorical: readonly CategoricalField[];
  /** The field that splits the data; undefined: none does. */
  readonly key?: number | undefined;
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

/** A header that is one column holds another delimiter: that is the one mistake. */
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

/** A header without any of the columns is another file's, or the first line of data. */
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
  const names = [...targetColumnsOf(options), ...features.map(({ column }) => column)];
  const message =
    `Expected the first line of ${path} to name the columns ${listed(names)}, got ` +
    `${listed(header)}: does the file have a header?`;
  return new InvalidOptionError("data.paths", message);
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
  key?: KeyColumn,
): Columns {
  const problems: { option: string; message: string }[] = [];
  const fieldOf = (option: string, name: string): number => {
    const field = header.indexOf(name);
    if (field < 0) problems.push({ option, message: missing(option, name, path, header) });
    return field;
  };
  const targetField = (option: string, name: string | undefined) =>
    name === undefined ? undefined : { field: fieldOf(option, name), name };
  const columns = {
    fields: header.length,
    delimiter: options.delimiter,
    hasQuotes: true,
    labels: labelsOf(options).map((name) => fieldOf("data.label", name)),
    readLabels: readersOf(options),
    numeric: areNumeric(options),
    weight: targetField("data.weight", options.weight),
    group: targetField("data.group", options.group),
    dense: denseFields(options, fieldOf),
    categorical: matchTables(options.categorical, tables).map(({ source, index, ...table }) => ({
      field: fieldOf(`data.categorical[${index}]`, source.column),
      name: source.column,
      ...table,
      ids: source.ids,
      offset: source.offset,
      separator: source.separator,
      weightSeparator: source.weightSeparator,
      missing: source.missing ?? usualMissing(source),
    })),
    key: key && fieldOf("evaluation.split.column", key.column),
  };
  if (problems.length > 0) {
    const asked =
      targetColumnsOf(options).length +
      options.dense.length +
      options.categorical.length +
      (key ? 1 : 0);
    throw (
      delimiterProblem(options, path, header) ??
      (problems.length === asked && asked > 1
        ? headerProblem(options, path, header)
        : InvalidOptionError.ofAll(problems))
    );
  }
  return columns;
}

/** The readers of the labels. */
function readersOf(options: ResolvedCsvOptions): LabelReader[] {
  const ofClass = labelReader(options.positive);
  const names = labelsOf(options);
  return areNumeric(options).map((isNumeric, i) => {
    return isNumeric ? numberReader(names[i] ?? "") : ofClass;
  });
}

function missing(option: string, name: string, path: string, header: readonly string[]): string {
  const near = nearestName(name, header);
  const names = header.map((column) => `\`${column}\``).join(", ");
  const advice = near === undefined ? "" : `; did you mean \`${near}\`?`;
  return (
    `\`${option}\` names the column \`${name}\`, which ${path} does not have; it has ${names}` +
    advice
  );
}

function denseFields(
  { dense }: ResolvedCsvOptions,
  fieldOf: (option: string, name: string) => number,
): DenseField[] {
  let next = 0;
  return dense.map(({ column, log, missing = 0, unreadable = "reject" }, index) => {
    const field = fieldOf(`data.dense[${index}]`, column);
    const at = next;
    next += missing === "indicator" ? 2 : 1;
    return { field, name: column, at, isInteger: false, log, missing, unreadable };
  });
}

/** One hashed id that is missing has a row of its own; otherwise nothing is looked up. */
function usualMissing({
  ids,
  separator,
}: ResolvedCsvOptions["categorical"][number]): "own" | "empty" {
  return ids === "hash" && separator === undefined ? "own" : "empty";
}

/** Dense features of a sample: a column with `missing: "indicator"` makes two. */
export function denseOf(options: ResolvedDataOptions): number {
  switch (options.kind) {
    case "criteo-tsv":
      return criteoDense;
    case "csv":
      return options.dense.reduce((sum, { missing }) => sum + (missing === "indicator" ? 2 : 1), 0);
    case "synthetic":
      return options.dense;
    default:
      return options satisfies never;
  }
}

/** The dense features whose missing values become the mean of the training data. */
export function meanFeatures(columns: Pick<Columns, "dense">): number[] {
  return columns.dense.flatMap(({ at, missing }) => (missing === "mean" ? at : []));
}

/** Throws where text with these options cannot feed these tables, before any file is read. */
export function checkTables(
  options: ResolvedCriteoTsvOptions | ResolvedCsvOptions,
  tables: readonly TableShape[],
): void {
  if (options.kind === "criteo-tsv") {
    criteoColumns(tables);
    return;
  }
  checkLabel(options);
  matchTables(options.categorical, tables);
}

/** Throws where the label is a feature, and the job does not say that it is meant. */
function checkLabel(options: ResolvedCsvOptions): void {
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

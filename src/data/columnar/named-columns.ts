// Maps the columns that a job names to the fields of a row: labels, weight and group, dense and
// categorical features. Categorical features are in the order of the model's tables; a column feeds
// the table of its own name, or the table that the options name.

import { nearestName } from "../../ports/nearest-name.ts";
import { transformsOf } from "../data-kinds.ts";
import type { ResolvedColumnOptions, TableShape } from "../options.ts";
import { type KeyColumn, optionOfKey } from "../split-keys.ts";
import { areNumeric, labelsOf, targetColumnsOf, whenMissing } from "../targets.ts";
import { gapReader, type LabelReader, labelReader, numberReader } from "../text/labels.ts";
import { type CategoricalColumn, categoricalOf, matchTables } from "../text/match-features.ts";
import { planOf } from "../transforms/plan.ts";

/** How a dense field is read. */
export interface DenseField {
  readonly field: number;
  readonly name: string;
  /**
   * Index of its dense feature; with `indicator`, the next feature is 1 if the value is missing.
   */
  readonly at: number;
  readonly isInteger: boolean;
  readonly log: boolean;
  /** Replacement of a missing value. The mean is filled in when a batch is read. */
  readonly missing: 0 | "mean" | "indicator" | "reject";
  /** Handling of non-numeric text. */
  readonly unreadable: "missing" | "reject";
  /** Whether `12,5` is 12.5. @default false */
  readonly decimalComma?: boolean | undefined;
  /** Whether a transform makes it. Such fields are numbered after the fields of the file. */
  readonly isMade?: boolean | undefined;
}

/** Counts the values of a field (value-watch.ts). */
export interface ValueTaker {
  /** Whether more values are counted. */
  readonly isOpen: boolean;
  /** Records a value of the current sample, and the id that it maps to. */
  take(value: string, id: number, high?: number): void;
}

/** How a categorical field is read, for one table. */
export interface CategoricalField {
  readonly field: number;
  readonly name: string;
  readonly rows: number;
  /** Whether ids have 64 bits. Any id is then valid; the table's policy maps it to a row. */
  readonly isWide: boolean;
  readonly ids: "hash" | "integer";
  /** Seed of hashed text: the index of the table. */
  readonly seed: number;
  /** The table's policy for integer ids beyond its rows; with `reject`, the line is bad. */
  readonly beyond: "reject" | "clamp" | "hash";
  readonly offset: number;
  readonly separator: string | undefined;
  /**
   * Whether the column holds lists of ids, plain or weighted; undefined for text or a single id.
   */
  readonly list?: "plain" | "weighted" | undefined;
  /** Character between an id and its weight; undefined if ids have no weights. */
  readonly weightSeparator: string | undefined;
  /** Handling of a field without an id: row 0, an empty bag, or a bad line. */
  readonly missing: "own" | "empty" | "reject";
  /** As `DenseField.isMade`. */
  readonly isMade?: boolean | undefined;
  /** Counts its values; undefined if they are not counted. */
  readonly watch?: ValueTaker | undefined;
}

/** The field of a weight or a group. */
export interface TargetField {
  readonly field: number;
  readonly name: string;
}

/** The roles of a row's fields. */
export interface FieldColumns {
  /** The fields of the labels. */
  readonly labels: readonly number[];
  /** Reader of each label. */
  readonly readLabels: readonly LabelReader[];
  /** Whether each label is numeric; left out, all are classes. */
  readonly numeric?: readonly boolean[] | undefined;
  /** Field of the sample weight, if samples have one. */
  readonly weight?: TargetField | undefined;
  /** Field of the group, if samples have one. */
  readonly group?: TargetField | undefined;
  readonly dense: readonly DenseField[];
  /** In the order of the model's tables. */
  readonly categorical: readonly CategoricalField[];
  /** Field that splits the data, if any. */
  readonly key?: number | undefined;
  /** Fields that transforms read, in the order of their plan; undefined without transforms. */
  readonly sources?: readonly number[] | undefined;
}

/** The fields of a header, and the problems with columns that the job names. */
export interface NamedColumns {
  readonly columns: FieldColumns;
  readonly problems: readonly { readonly option: string; readonly message: string }[];
  /** Number of columns that the job names. */
  readonly named: number;
}

/** Looks up the columns that the job names in the header of the file at `path`. */
export function namedColumns(
  options: ResolvedColumnOptions,
  tables: readonly TableShape[],
  { path, header }: { readonly path: string; readonly header: readonly string[] },
  key?: KeyColumn,
): NamedColumns {
  const problems: { option: string; message: string }[] = [];
  const transforms = transformsOf(options);
  const { sources, outputs } = planOf(transforms ?? []);
  const made = [...outputs.keys()];
  for (const name of header) {
    if (outputs.has(name)) problems.push(shadowed(name, path));
  }
  const fieldOf = (option: string, name: string): number => {
    const field = header.indexOf(name);
    if (field >= 0) return field;
    const isMade = made.includes(name);
    const message = isMade ? noOutput(option, name) : missing(option, name, path, header, made);
    problems.push({ option, message });
    return field;
  };
  const featureField = (option: string, name: string): Pick<DenseField, "field" | "isMade"> => {
    const place = made.indexOf(name);
    return place < 0
      ? { field: fieldOf(option, name) }
      : { field: header.length + place, isMade: true };
  };
  const targetField = (option: string, name: string | undefined) =>
    name === undefined ? undefined : { field: fieldOf(option, name), name };
  const categorical = categoricalOf(options);
  const columns = {
    labels: labelsOf(options).map((name) => fieldOf("data.label", name)),
    readLabels: readersOf(options),
    numeric: areNumeric(options),
    weight: targetField("data.weight", options.weight),
    group: targetField("data.group", options.group),
    dense: denseFields(options, featureField),
    categorical: matchTables(categorical, tables).map(({ source, index, ...table }) => ({
      ...featureField(`data.categorical[${index}]`, source.column),
      name: source.column,
      ...table,
      ids: source.ids,
      offset: source.offset,
      list: source.list,
      separator: source.separator,
      weightSeparator: source.weightSeparator,
      missing: source.missing ?? usualMissing(source),
    })),
    key: key && fieldOf(optionOfKey(key), key.column),
    ...(transforms && {
      sources: sources.map(({ column }) => fieldOf("data.transforms", column)),
    }),
  };
  const features = [...options.dense, ...categorical].filter(({ column }) => !outputs.has(column));
  const read = features.length + sources.length;
  const named = targetColumnsOf(options).length + read + (key ? 1 : 0);
  return { columns, problems, named };
}

function readersOf(options: ResolvedColumnOptions): LabelReader[] {
  const ofClass = labelReader(options.positive);
  const [names, rules] = [labelsOf(options), whenMissing(options)];
  return areNumeric(options).map((isNumeric, i) => {
    const name = names[i] ?? "";
    const read = isNumeric ? numberReader(name) : ofClass;
    const isAlone = names.length === 1 && rules[i] === undefined;
    return isAlone ? read : gapReader(read, name, rules[i]);
  });
}

/**
 * The problem of a transform output with the name of a column of the file: using either of them
 * silently would be a guess.
 */
function shadowed(name: string, path: string): NamedColumns["problems"][number] {
  const message =
    `Expected the outputs of \`data.transforms\` to be no columns of ${path}, which has ` +
    `\`${name}\` already: name the output otherwise`;
  return { option: "data.transforms", message };
}

/** The message for a column other than a feature that names the output of a transform. */
function noOutput(option: string, name: string): string {
  return (
    `\`${option}\` names \`${name}\`, which a transform makes: labels, weights, groups, what splits ` +
    "the data and what transforms read are columns of the files; name one of those"
  );
}

/** The message for a column that a file does not have. */
export function missing(
  option: string,
  name: string,
  path: string,
  header: readonly string[],
  made: readonly string[],
): string {
  const near = nearestName(name, [...header, ...made]);
  const names = header.map((column) => `\`${column}\``).join(", ");
  const advice = near === undefined ? "" : `; did you mean \`${near}\`?`;
  return (
    `\`${option}\` names the column \`${name}\`, which ${path} does not have; it has ${names}` +
    advice
  );
}

function denseFields(
  { dense }: ResolvedColumnOptions,
  fieldOf: (option: string, name: string) => Pick<DenseField, "field" | "isMade">,
): DenseField[] {
  let next = 0;
  return dense.map(({ column, log, missing = 0, unreadable = "reject", ...rest }, index) => {
    const field = fieldOf(`data.dense[${index}]`, column);
    const at = next;
    next += missing === "indicator" ? 2 : 1;
    const { decimalComma } = rest;
    return { ...field, name: column, at, isInteger: false, log, missing, unreadable, decimalComma };
  });
}

/** The default of `missing`: row 0 for a column of one hashed id, otherwise an empty bag. */
function usualMissing({ ids, separator, list }: CategoricalColumn): "own" | "empty" {
  return ids === "hash" && separator === undefined && list === undefined ? "own" : "empty";
}

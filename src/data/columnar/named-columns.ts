// Which fields of a row are what, where a job names its columns: labels, weight and group, dense
// and categorical features. Features are in the order of the model's tables; a categorical column
// feeds the table with its own name, or the table that the options name.

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
  /** The dense feature of its value; with `indicator`, the next one tells what is missing. */
  readonly at: number;
  readonly isInteger: boolean;
  readonly log: boolean;
  /** What a missing value becomes; the mean is filled in later. */
  readonly missing: 0 | "mean" | "indicator" | "reject";
  /** What text that is no number is. */
  readonly unreadable: "missing" | "reject";
  /** Whether `12,5` is 12.5. @default false */
  readonly decimalComma?: boolean | undefined;
  /** Whether a transform makes it: `field` then counts on behind the fields of the file. */
  readonly isMade?: boolean | undefined;
}

/** Counts the values of a field (value-watch.ts). */
export interface ValueTaker {
  /** Whether more values are counted. */
  readonly isOpen: boolean;
  /** Takes a value of the sample that is being read, and the id that it became. */
  take(value: string, id: number, high?: number): void;
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
  /** Whether a row has a list of ids, perhaps with weights; undefined: it is text, or one id. */
  readonly list?: "plain" | "weighted" | undefined;
  /** The character between an id and its weight; undefined where ids have no weights. */
  readonly weightSeparator: string | undefined;
  /** What a field without an id becomes: row 0, an empty bag, or a bad line. */
  readonly missing: "own" | "empty" | "reject";
  /** As that of a dense field. */
  readonly isMade?: boolean | undefined;
  /** Counts its values; undefined: nobody does. */
  readonly watch?: ValueTaker | undefined;
}

/** A field that is no feature. */
export interface TargetField {
  readonly field: number;
  readonly name: string;
}

/** Which fields of a row are what. */
export interface FieldColumns {
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
  /** The fields that transforms read, in the order of their plan; undefined: there are none. */
  readonly sources?: readonly number[] | undefined;
}

/** The fields of a header, and which of the columns that the job names it lacks. */
export interface NamedColumns {
  readonly columns: FieldColumns;
  readonly problems: readonly { readonly option: string; readonly message: string }[];
  /** Columns that were looked for. */
  readonly asked: number;
}

/** The columns that the job names, in the file at `path` with this header. */
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
  const asked = targetColumnsOf(options).length + read + (key ? 1 : 0);
  return { columns, problems, asked };
}

/** The readers of the labels. */
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

/** A column of the file that a transform makes, too: one of the two would be taken unnoticed. */
function shadowed(name: string, path: string): NamedColumns["problems"][number] {
  const message =
    `Expected the outputs of \`data.transforms\` to be no columns of ${path}, which has ` +
    `\`${name}\` already: name the output otherwise`;
  return { option: "data.transforms", message };
}

/** What is no feature is a column of the files. */
function noOutput(option: string, name: string): string {
  return (
    `\`${option}\` names \`${name}\`, which a transform makes: labels, weights, groups, what splits ` +
    "the data and what transforms read are columns of the files; name one of those"
  );
}

/** The sentence about a column that a file does not have. */
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

/** One hashed id that is missing has a row of its own; otherwise nothing is looked up. */
function usualMissing({ ids, separator, list }: CategoricalColumn): "own" | "empty" {
  return ids === "hash" && separator === undefined && list === undefined ? "own" : "empty";
}

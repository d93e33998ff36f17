// Chooses the data section with which files are read for prediction: the training job's, or, for
// files of another format, the same columns translated to that format. A data set gives the same
// samples in every format (docs/data.md), and so the same predictions.

import {
  formatsByEnding,
  InputUnusableError,
  type JobSpec,
  namesColumns,
  objectIn,
  type ResolvedColumnOptions,
  type ResolvedTextOptions,
  shownPath,
} from "../../../internal.ts";

type Kind = ResolvedColumnOptions["kind"];

const formats = new Map(Object.entries(formatsByEnding));

/** Separators in CSV between the ids of a list, and between an id and its weight. */
const [betweenIds, beforeWeight] = ["|", ":"];

/** The data section for these files. @throws InputUnusableError where their formats differ */
export function dataOf(trained: JobSpec["data"], files: readonly string[]): JobSpec["data"] {
  if (!namesColumns(trained)) return trained;
  const [first = ""] = files;
  const kind = kindOf(first) ?? trained.kind;
  const other = files.find((file) => (kindOf(file) ?? kind) !== kind);
  if (other !== undefined) {
    const names = `${shownPath(first)} and ${shownPath(other)}`;
    throw new InputUnusableError(shownPath(other), `Expected files of one format, got ${names}`);
  }
  if (kind === trained.kind) return trained;
  const { delimiter: _, where: __, streamed: ___, ...rest } = trained as Record<string, unknown>;
  // Formats differ only in the options that are removed or set in this function. All other options
  // have the same names, which the compiler cannot verify: hence the cast.
  if (kind !== "csv") return { damagedMax: 0, ...rest, kind } as unknown as ResolvedColumnOptions;
  const delimiter = endingOf(first) === "tsv" ? "\t" : ",";
  return { ...(withSplitTexts(rest) as object), kind, delimiter } as ResolvedColumnOptions;
}

function endingOf(path: string): string {
  const [, ending = ""] = /\.(\w+?)(?:\.gz|\.zst)?$/i.exec(shownPath(path)) ?? [];
  return ending.toLowerCase();
}

function kindOf(path: string): Kind | undefined {
  const ending = endingOf(path);
  const format = formats.get(ending);
  return format === "tsv" ? "csv" : format;
}

/** Column options for CSV, where lists become texts with separators. */
function withSplitTexts(value: unknown): unknown {
  return mapColumns(value, ({ list, ...column }) => {
    if (list === undefined) return column;
    const weighted = list === "weighted" && { weightSeparator: beforeWeight };
    return { ...column, separator: betweenIds, ...weighted };
  });
}

/** The same data options with lists instead of separated texts, for columns where `isList`. */
export function withLists<Data extends ResolvedColumnOptions>(
  data: Data,
  isList: (column: string) => boolean = () => true,
): Data {
  return mapColumns(data, ({ separator, weightSeparator, ...column }) => {
    const isSplit = separator !== undefined || weightSeparator !== undefined;
    if (isSplit && isList(String(column.column))) {
      return { ...column, list: weightSeparator === undefined ? "plain" : "weighted" };
    }
    return {
      ...column,
      ...(separator !== undefined && { separator }),
      ...(weightSeparator !== undefined && { weightSeparator }),
    };
  }) as Data;
}

/** Options for JSON Lines: columns with a list in the first line are lists, others texts. */
export function asInLine(data: ResolvedTextOptions, line: string): ResolvedTextOptions {
  if (data.kind !== "jsonl") return data;
  const object = objectIn(line) ?? {};
  return withLists(data, (name) => Object.hasOwn(object, name) && typeof object[name] === "object");
}

type Column = Readonly<Record<string, unknown>> & { readonly column?: unknown };

/** Applies `change` to every object within a value that has a `column`. */
function mapColumns(value: unknown, change: (column: Column) => unknown): unknown {
  if (Array.isArray(value)) return value.map((one) => mapColumns(one, change));
  if (typeof value !== "object" || value === null) return value;
  const members = Object.entries(value).map(([name, one]) => [name, mapColumns(one, change)]);
  const mapped = Object.fromEntries(members) as Column;
  return typeof mapped.column === "string" ? change(mapped) : mapped;
}

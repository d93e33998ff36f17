// Encodes in-memory records into ids and dense values, by exactly the rules and transforms of the
// training data. A record is an object whose keys are the names of the job's columns. A missing key
// means a missing value. Unknown keys are ignored if a record has every column. If a column is
// missing, an unknown key may be its misspelled name, so the record is refused.

import { InvalidOptionError, shownName } from "../errors/errors.ts";
import { nearestName } from "../ports/nearest-name.ts";
import { BatchRows, type EncodedBatch } from "./batch-rows.ts";
import type { Means } from "./cache/cache-format.ts";
import { bagReader } from "./columnar/bag-reader.ts";
import { type FieldColumns, namedColumns } from "./columnar/named-columns.ts";
import {
  bagValueReader,
  denseValueReader,
  type MadeFeatures,
  madeOfRecords,
} from "./columnar/record-values.ts";
import { isTable, transformsOf } from "./data-kinds.ts";
import type {
  ResolvedDataOptions,
  ResolvedJsonLinesOptions,
  ResolvedSyntheticOptions,
  ResolvedTableOptions,
  TableShape,
} from "./options.ts";
import { Sample } from "./sample.ts";
import type { SplitColumn } from "./split-keys.ts";
import { targetColumnsOf } from "./targets.ts";
import { criteoColumns, csvColumns, denseOf, wideOf } from "./text/columns.ts";
import { type LineFault, sentenceOf } from "./text/faults.ts";
import { memberAt } from "./text/json-lines.ts";
import { labelReader } from "./text/labels.ts";
import { dataColumnsOf, weightedOf } from "./text/match-features.ts";
import { type CompiledTransforms, transformsFor } from "./transforms/compile.ts";

/**
 * One value of a record. Null and undefined are missing. A bigint is a 64-bit id. A boolean is the
 * text `true` or `false` as an id, and 1 or 0 as a number.
 */
export type RecordValue = string | number | bigint | boolean | null | undefined;

/**
 * A sample without its label, by column. A list is a bag of ids. An id with a weight is text, as in
 * training: `12:0.5`, with the column's own separator, or `:` for generated data and for weighted
 * lists of columnar files.
 */
export type SampleRecord = Readonly<Record<string, RecordValue | readonly RecordValue[]>>;

/** Encodes records into batches. */
export interface RecordEncoder {
  /** The columns that features come from; undefined if transforms make some of them. */
  readonly columns: EncodedColumns | undefined;
  /**
   * Encodes the features of the records, in order, into memory that the caller owns. `only`: the
   * columns to read, for records whose keys were checked before; other dense features are 0, and
   * other bags empty.
   * @throws InvalidOptionError naming the record and its column
   */
  encode(records: readonly SampleRecord[], only?: ReadonlySet<string>): EncodedBatch;
}

/** Names of columns. */
export interface EncodedColumns {
  /** Column of each dense feature. */
  readonly dense: readonly string[];
  /** Column of each categorical feature. */
  readonly features: readonly string[];
}

/**
 * Creates the encoder for a job's data, with the columns that the job's tables were trained on.
 * `means`: means of the training data, for columns with `missing: "mean"`. `key`: the column that
 * splits the data, which records may have, like labels.
 */
export function createRecordEncoder(
  data: ResolvedDataOptions,
  tables: readonly TableShape[],
  means?: Means,
  key?: SplitColumn,
): RecordEncoder {
  const columns = columnsOf(data, tables);
  const weighted = weightedOf(data, tables);
  const transforms = transformsFor(data);
  const readers = columns.categorical.map((column, i) => {
    return column.isMade === true ? bagReader(column, i) : undefined;
  });
  const names = namesOf(columns, transforms);
  const others = [...targetColumnsOf(data), ...(key === undefined ? [] : [key.column])];
  const dotted = names.filter((name) => name.includes("."));
  const dense = denseOf(data);
  const wide = wideOf(tables);
  const sample = new Sample({ dense, features: tables.length, wide, weighted });
  const areNumbers = isTable(data);
  const features = [
    ...columns.dense.map((column) => {
      return { name: column.name, read: denseValueReader(column, areNumbers) };
    }),
    ...columns.categorical.map((column, feature) => {
      const isBag = isBagOf(data, columns, feature);
      return { name: column.name, read: bagValueReader(feature, column, isBag) };
    }),
  ];

  const fill = (
    record: SampleRecord,
    row: number,
    made: MadeFeatures | undefined,
    only: ReadonlySet<string> | undefined,
  ): LineFault | undefined => {
    const fault = made?.faults.get(row);
    if (fault !== undefined) return fault;
    sample.clear();
    let place = 0;
    for (const { name, read } of features) {
      const fillMade = made?.fills[place++];
      if (only?.has(name) === false) continue;
      const wrong = fillMade === undefined ? read(sample, record[name]) : fillMade(sample, row);
      if (wrong !== undefined) return wrong;
    }
    return undefined;
  };

  return {
    columns: transforms === undefined ? namesBy(columns) : undefined,
    encode(given, only) {
      const records = dotted.length === 0 ? given : given.map((record) => flat(record, names));
      const shape = { dense, wide, weighted, means };
      const rows = new BatchRows(records.length, shape);
      const misnamed =
        only === undefined ? records.map((record) => checkNames(record, names, others)) : [];
      const isGood = (index: number) => misnamed[index] === undefined;
      const reading = { isGood, columns, readers, areNumbers };
      const made = transforms && madeOfRecords(transforms, records, reading);
      for (const [index, record] of records.entries()) {
        const fault = misnamed[index] ?? fill(record, index, made, only);
        if (fault !== undefined) {
          const at = `records[${index}]`;
          throw new InvalidOptionError(at, `Cannot use ${at}: ${sentenceOf(fault)}`);
        }
        rows.add(index, sample);
      }
      return rows.batch();
    },
  };
}

/**
 * Flattens a record: members of nested objects that are columns, such as `user.id`, become keys.
 */
function flat(record: SampleRecord, names: readonly string[]): SampleRecord {
  if (typeof record !== "object" || record === null || Array.isArray(record)) return record;
  const found: Record<string, unknown> = { ...record };
  for (const name of names.filter((one) => one.includes("."))) {
    const value = Object.hasOwn(record, name) ? undefined : memberAt(record, name);
    if (value === undefined) continue;
    found[name] = value;
    const outer = Object.keys(record).find((key) => name.startsWith(`${key}.`));
    if (outer !== undefined && !names.includes(outer)) delete found[outer];
  }
  return found as SampleRecord;
}

export interface RecordColumn {
  readonly name: string;
  /** Type of its value: a number, an id (text or number), or a list of ids. */
  readonly holds: "number" | "id" | "ids";
}

/**
 * The columns of a record, each once, in the order: dense features, categorical features, inputs of
 * transforms.
 */
export function recordColumnsOf(
  data: ResolvedDataOptions,
  tables: readonly TableShape[],
): RecordColumn[] {
  const columns = columnsOf(data, tables);
  const found = new Map<string, RecordColumn["holds"]>();
  const note = (name: string, holds: RecordColumn["holds"]) => {
    if (!found.has(name)) found.set(name, holds);
  };
  for (const { name, isMade } of columns.dense) if (isMade !== true) note(name, "number");
  for (const [feature, { name, isMade }] of columns.categorical.entries()) {
    if (isMade !== true) note(name, isBagOf(data, columns, feature) ? "ids" : "id");
  }
  for (const { column, form } of transformsFor(data)?.sources ?? []) {
    note(column, form === "ids" || form === "texts" ? "ids" : "number");
  }
  return Array.from(found, ([name, holds]) => ({ name, holds }));
}

/**
 * The file columns that the features come from. For a feature that is made from several columns, it
 * is the output of the transform that joins them.
 */
export function featureColumnsOf(
  data: ResolvedDataOptions,
  tables: readonly TableShape[],
): EncodedColumns {
  const columns = columnsOf(data, tables);
  const names = namesBy(columns);
  const inputs = new Map(
    (transformsOf(data) ?? []).flatMap((one) => {
      if (!("input" in one)) return [];
      const { input, output } = one;
      return [[output, typeof input === "string" ? input : input.column] as const];
    }),
  );
  const sourceOf = (name: string): string => {
    const input = inputs.get(name);
    return input === undefined || input === name ? name : sourceOf(input);
  };
  return { dense: names.dense.map(sourceOf), features: names.features.map(sourceOf) };
}

/** Whether a feature's column may hold a list. */
function isBagOf(
  data: ResolvedDataOptions,
  { categorical }: FieldColumns,
  feature: number,
): boolean {
  const { separator, list } = categorical[feature] ?? {};
  return data.kind === "synthetic" || separator !== undefined || list !== undefined;
}

/** The column of each feature. An indicator of missing values has the column before it. */
function namesBy({ dense, categorical }: FieldColumns): EncodedColumns {
  return {
    dense: dense.flatMap(({ name, missing }) => (missing === "indicator" ? [name, name] : [name])),
    features: categorical.map(({ name }) => name),
  };
}

/** The names of a record's columns, each once: columns that features and transforms read. */
function namesOf(columns: FieldColumns, transforms: CompiledTransforms | undefined): string[] {
  const read = [...columns.dense, ...columns.categorical].filter(({ isMade }) => isMade !== true);
  const sources = transforms?.sources.map(({ column }) => column) ?? [];
  return [...new Set([...read.map(({ name }) => name), ...sources])];
}

/**
 * The fault of a record with a key that is probably a misspelled column name. `names`: the job's
 * columns, each once; `others`: its columns that are no features.
 */
function checkNames(
  record: SampleRecord,
  names: readonly string[],
  others: readonly string[],
): LineFault | undefined {
  if (typeof record !== "object" || record === null || Array.isArray(record)) {
    return {
      kind: "expected an object",
      got: Array.isArray(record) ? "a list" : shownName(String(record)),
    };
  }
  if (names.length === 0) return undefined;
  const absent: string[] = [];
  for (const name of names) {
    if (record[name] === undefined && !Object.hasOwn(record, name)) absent.push(name);
  }
  if (absent.length === 0) return undefined;
  const keys = Object.keys(record);
  if (absent.length === names.length) {
    return { kind: `expected some of the columns ${listed(names)}`, got: listed(keys) };
  }
  const known = new Set([...names, ...others]);
  const unknown = keys.find((key) => !known.has(key));
  if (unknown === undefined) return undefined;
  const near = nearestName(unknown, absent);
  const advice =
    near === undefined
      ? `the record has no ${listed(absent)}; say null for a missing value, or drop \`${shownName(unknown)}\``
      : `did you mean \`${near}\`?`;
  return { kind: `\`${shownName(unknown)}\` is no column of the job: ${advice}` };
}

/** The columns of a record, with the rules that convert their values to features. */
export function columnsOf(data: ResolvedDataOptions, tables: readonly TableShape[]): FieldColumns {
  switch (data.kind) {
    case "criteo-tsv":
      return criteoColumns(tables);
    case "csv":
      return csvColumns(data, tables, "the records", dataColumnsOf(data));
    case "jsonl":
    case "arrow":
    case "parquet":
      return listedColumns(data, tables);
    case "synthetic":
      return syntheticColumns(data, tables);
    default:
      return data satisfies never;
  }
}

/** Columns of formats with lists: in records, a weighted entry is text, an id, `:`, a weight. */
function listedColumns(
  data: ResolvedTableOptions | ResolvedJsonLinesOptions,
  tables: readonly TableShape[],
): FieldColumns {
  const named = { path: "the records", header: dataColumnsOf(data) };
  const { columns } = namedColumns(data, tables, named);
  const categorical = columns.categorical.map((column) => {
    return column.list === "weighted" ? { ...column, weightSeparator: ":" } : column;
  });
  return { ...columns, categorical };
}

/** Columns of generated samples: dense values are used unchanged, and ids are table rows. */
function syntheticColumns(
  { dense, weights }: ResolvedSyntheticOptions,
  tables: readonly TableShape[],
): FieldColumns {
  const weightSeparator = weights === undefined ? undefined : ":";
  const rule = { missing: 0 as const, unreadable: "reject" as const };
  return {
    labels: [0],
    readLabels: [labelReader(undefined)],
    dense: Array.from({ length: dense }, (_, index) => {
      const name = `I${index + 1}`;
      return { field: 1 + index, name, at: index, isInteger: false, log: false, ...rule };
    }),
    categorical: tables.map(({ name, rows, idBits, ids: beyond = "reject" }, index) => {
      const place = { field: 1 + dense + index, name, rows, isWide: idBits === 64, beyond };
      const form = {
        ids: "integer" as const,
        seed: index,
        offset: 0,
        separator: undefined,
        weightSeparator,
      };
      return { ...place, ...form, missing: "empty" as const };
    }),
  };
}

/** The first few names, for a message. */
function listed(names: readonly string[]): string {
  const shown = names.slice(0, 6).map((name) => `\`${shownName(name)}\``);
  if (names.length === 0) return "none";
  return names.length > shown.length ? `${shown.join(", ")}, …` : shown.join(", ");
}

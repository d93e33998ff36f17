// Encodes records in memory into ids and dense values, with exactly the transforms of the training
// data. A record is an object with the names of the job's columns as keys. A missing key is an
// empty field of training. Keys that the job does not know, the label for example, are ignored.

import { InvalidOptionError } from "../errors/errors.ts";
import { BatchRows, type EncodedBatch } from "./batch-rows.ts";
import type { ResolvedDataOptions, ResolvedSyntheticOptions, TableShape } from "./options.ts";
import { Sample } from "./sample.ts";
import {
  type CategoricalField,
  type Columns,
  criteoColumns,
  csvColumns,
  weightedOf,
  wideOf,
} from "./text/columns.ts";
import { decodeBag, decodeDense, decodeEntry } from "./text/line-decoder.ts";

/** One value of a record. Null and undefined are missing. A bigint is a 64-bit id. */
export type RecordValue = string | number | bigint | null | undefined;

/**
 * A sample without its label, by column. A list is a bag of ids. Where ids have weights, each one
 * is text as in training: `12:0.5` with the column's own separator, `:` for generated data.
 */
export type SampleRecord = Readonly<Record<string, RecordValue | readonly RecordValue[]>>;

/** Encodes records into batches. */
export interface RecordEncoder {
  /**
   * The features of the records, in their order, in memory that the caller owns.
   * @throws InvalidOptionError naming the record and its column
   */
  encode(records: readonly SampleRecord[]): EncodedBatch;
}

/** The encoder of a job's data, with the columns that the job's tables were trained on. */
export function createRecordEncoder(
  data: ResolvedDataOptions,
  tables: readonly TableShape[],
): RecordEncoder {
  const columns = columnsOf(data, tables);
  const weighted = weightedOf(data, tables);
  const names = [...columns.dense, ...columns.categorical].map(({ name }) => name);
  const known = new Set(names);
  const isBag = (feature: number): boolean =>
    data.kind === "synthetic" || columns.categorical[feature]?.separator !== undefined;
  const sample = new Sample({ dense: columns.dense.length, features: tables.length });

  const fill = (record: SampleRecord): string | undefined => {
    if (typeof record !== "object" || record === null) return `expected an object, got ${record}`;
    if (names.length > 0 && !Object.keys(record).some((name) => known.has(name))) {
      return `expected some of the columns ${listed(names)}, got ${listed(Object.keys(record))}`;
    }
    sample.clear();
    for (const [index, dense] of columns.dense.entries()) {
      const text = textOf(record[dense.name]);
      const value =
        text === undefined ? noValue(dense.name, "one number") : decodeDense(text, dense);
      if (typeof value === "string") return value;
      sample.dense[index] = value;
    }
    for (const feature of columns.categorical.keys()) {
      const reason = fillBag(sample, feature, columns, record, isBag(feature));
      if (reason !== undefined) return reason;
    }
    return undefined;
  };

  return {
    encode(records) {
      const shape = { dense: columns.dense.length, wide: wideOf(tables), weighted };
      const rows = new BatchRows(records.length, shape);
      for (const [index, record] of records.entries()) {
        const reason = fill(record);
        if (reason !== undefined) {
          throw new InvalidOptionError(
            `records[${index}]`,
            `Cannot use records[${index}]: ${reason}`,
          );
        }
        rows.add(index, sample);
      }
      return rows.batch();
    },
  };
}

function fillBag(
  sample: Sample,
  feature: number,
  columns: Columns,
  record: SampleRecord,
  isBag: boolean,
): string | undefined {
  const column = columns.categorical[feature];
  if (column === undefined) return undefined;
  const value = record[column.name];
  if (!Array.isArray(value)) {
    const text = idTextOf(value, column);
    if (text === undefined) return noId(column, isBag ? "an id or a list" : "one id");
    return decodeBag(sample, feature, text, column);
  }
  if (!isBag) return `expected \`${column.name}\` to be one id, got a list of ${value.length}`;
  for (const entry of value) {
    const text = idTextOf(entry, column);
    if (text === undefined) return noId(column, "a list of ids");
    const reason = text === "" ? undefined : decodeEntry(sample, feature, text, column);
    if (reason !== undefined) return reason;
  }
  return undefined;
}

function columnsOf(data: ResolvedDataOptions, tables: readonly TableShape[]): Columns {
  switch (data.kind) {
    case "criteo-tsv":
      return criteoColumns(tables);
    case "csv": {
      const dense = data.dense.map(({ column }) => column);
      const categorical = data.categorical.map(({ column }) => column);
      return csvColumns(data, tables, "the records", [data.label, ...dense, ...categorical]);
    }
    case "synthetic":
      return syntheticColumns(data, tables);
    default:
      return data satisfies never;
  }
}

/** Columns of generated samples: dense values are used as they are, and ids are rows. */
function syntheticColumns(
  { dense, weights }: ResolvedSyntheticOptions,
  tables: readonly TableShape[],
): Columns {
  const weightSeparator = weights === undefined ? undefined : ":";
  const fields = { delimiter: "\t", hasQuotes: false, label: 0 };
  return {
    ...fields,
    fields: 1 + dense + tables.length,
    dense: Array.from({ length: dense }, (_, index) => {
      return { field: 1 + index, name: `I${index + 1}`, isInteger: false, log: false };
    }),
    categorical: tables.map(({ name, rows, idBits }, index) => {
      const place = { field: 1 + dense + index, name, rows, isWide: idBits === 64 };
      const form = { ids: "integer" as const, offset: 0, separator: undefined, weightSeparator };
      return { ...place, ...form };
    }),
  };
}

/**
 * The field that training would have read, one byte per character; undefined where there is none.
 */
function textOf(value: unknown): string | undefined {
  if (value === null || value === undefined) return "";
  if (typeof value === "number" || typeof value === "bigint") return String(value);
  return typeof value === "string" ? Buffer.from(value, "utf8").toString("latin1") : undefined;
}

/** As `textOf`, for an id. A number that may have been rounded is refused as a 64-bit id. */
function idTextOf(value: unknown, { isWide }: CategoricalField): string | undefined {
  const mayBeRounded = typeof value === "number" && !Number.isSafeInteger(value);
  return isWide && mayBeRounded ? undefined : textOf(value);
}

function noId({ name, isWide }: CategoricalField, wanted: string): string {
  return isWide
    ? `expected \`${name}\` to be ${wanted}, as text, bigint or a safe integer`
    : noValue(name, wanted);
}

function noValue(name: string, wanted: string): string {
  return `expected \`${name}\` to be ${wanted}, as text or number`;
}

/** The first few of many names, for a message. */
function listed(names: readonly string[]): string {
  const shown = names.slice(0, 6).map((name) => `\`${name}\``);
  if (names.length === 0) return "none";
  return names.length > shown.length ? `${shown.join(", ")}, …` : shown.join(", ");
}

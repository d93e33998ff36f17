// Records in memory become ids and dense values, with exactly the transforms of the training data.
// A record is an object keyed by the names of the job's columns. What is missing is missing: an
// empty field in training. Fields that the job does not know, a label among them, are left alone.

import { InvalidOptionError } from "../errors/errors.ts";
import {
  type CategoricalField,
  type Columns,
  criteoColumns,
  csvColumns,
  weightedOf,
  wideOf,
} from "./columns.ts";
import type { BatchMemory } from "./dataset.ts";
import { decodeBag, decodeDense, decodeEntry } from "./line-decoder.ts";
import type { ResolvedDataOptions, ResolvedSyntheticOptions, TableShape } from "./options.ts";
import { Sample } from "./sample.ts";

/** One value of a record; null and undefined are missing. A bigint is an id of 64 bits. */
export type RecordValue = string | number | bigint | null | undefined;

/**
 * A sample without its label, by column. A list is the ids of a bag. Where ids have weights, each
 * is text as in training, `12:0.5` with the column's own separator, `:` for generated data.
 */
export type SampleRecord = Readonly<Record<string, RecordValue | readonly RecordValue[]>>;

/** Features of some samples: as `BatchMemory`, with nothing behind the last id, and no labels. */
export interface EncodedBatch extends Omit<BatchMemory, "labels"> {
  readonly samples: number;
}

/** Turns records into batches. */
export interface RecordEncoder {
  /**
   * The features of the records, in their order, in memory that is the caller's.
   * @throws InvalidOptionError naming the record and its column
   */
  encode(records: readonly SampleRecord[]): EncodedBatch;
}

/** The encoder of a job's data: the columns are those that its tables were trained on. */
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

/** Generated samples have values as they are, and ids that are rows. */
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

/** Sample after sample comes in; what goes out is feature-major. */
class BatchRows {
  readonly #samples: number;
  readonly #dense: Float32Array;
  readonly #lengths: Int32Array;
  /** Ids of each feature, sample after sample. */
  readonly #ids: number[][];
  /** Their upper halves, where some feature is wide. */
  readonly #highs: number[][] | undefined;
  /** Their weights, where some feature has any. */
  readonly #weights: number[][] | undefined;
  readonly #width: number;

  constructor(
    samples: number,
    {
      dense,
      wide,
      weighted,
    }: {
      readonly dense: number;
      readonly wide: readonly boolean[];
      readonly weighted: readonly boolean[];
    },
  ) {
    const features = wide.length;
    this.#samples = samples;
    this.#width = dense;
    this.#dense = new Float32Array(samples * dense);
    this.#lengths = new Int32Array(features * samples);
    this.#ids = Array.from({ length: features }, () => []);
    this.#highs = wide.includes(true) ? this.#ids.map(() => []) : undefined;
    this.#weights = weighted.includes(true) ? this.#ids.map(() => []) : undefined;
  }

  add(index: number, sample: Sample): void {
    this.#dense.set(sample.dense, index * this.#width);
    let at = 0;
    for (const [feature, bag] of this.#ids.entries()) {
      const length = sample.lengths[feature] ?? 0;
      this.#lengths[feature * this.#samples + index] = length;
      for (const end = at + length; at < end; at++) {
        bag.push(sample.ids[at] ?? 0);
        this.#highs?.[feature]?.push(sample.highs[at] ?? 0);
        this.#weights?.[feature]?.push(sample.weights[at] ?? 0);
      }
    }
  }

  batch(): EncodedBatch {
    return {
      samples: this.#samples,
      dense: this.#dense,
      lengths: this.#lengths,
      ids: Int32Array.from(this.#ids.flat()),
      highs: this.#highs === undefined ? undefined : Int32Array.from(this.#highs.flat()),
      weights: this.#weights === undefined ? undefined : Float32Array.from(this.#weights.flat()),
    };
  }
}

/** The field that training would have read; undefined where it is none. Characters are bytes. */
function textOf(value: unknown): string | undefined {
  if (value === null || value === undefined) return "";
  if (typeof value === "number" || typeof value === "bigint") return String(value);
  return typeof value === "string" ? Buffer.from(value, "utf8").toString("latin1") : undefined;
}

/** The same of an id: a number that may have been rounded is no id of 64 bits. */
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

/** The first of many names. */
function listed(names: readonly string[]): string {
  const shown = names.slice(0, 6).map((name) => `\`${name}\``);
  if (names.length === 0) return "none";
  return names.length > shown.length ? `${shown.join(", ")}, …` : shown.join(", ");
}

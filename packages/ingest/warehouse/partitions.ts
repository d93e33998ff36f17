// Buffers rows by partition until a row group is full, and names partitions.

import type { SchemaElement } from "hyparquet";
import { InvalidOptionError } from "../../../internal.ts";
import type { TableColumn, TableRows } from "./table-columns.ts";

/** The rows of a partition that are not written yet. */
export class PartitionRows {
  #columns: Map<string, unknown[]>;
  #count = 0;
  readonly #names: readonly string[];

  constructor(columns: readonly TableColumn[]) {
    this.#names = columns.map(({ name }) => name);
    this.#columns = this.#empty();
  }

  get count(): number {
    return this.#count;
  }

  add(from: ReadonlyMap<string, readonly unknown[]>, row: number): void {
    for (const [name, values] of this.#columns) values.push(from.get(name)?.[row]);
    this.#count++;
  }

  /** Returns the rows and empties the buffer. */
  take(): ReadonlyMap<string, readonly unknown[]> {
    const taken = this.#columns;
    this.#columns = this.#empty();
    this.#count = 0;
    return taken;
  }

  #empty(): Map<string, unknown[]> {
    return new Map(this.#names.map((name) => [name, []]));
  }
}

/** The partition value of Hive and Spark for rows without a value. */
const noValue = "__HIVE_DEFAULT_PARTITION__";

/** The name of each row's partition directory: `day=2026-11-01`. */
export function partitionNames({ name, elements }: TableColumn, { columns }: TableRows): string[] {
  const [element] = elements;
  if (element === undefined || !isPlain(element)) {
    const message = `Expected \`--partition-by\` to name a column of integers, text, true and false, but \`${name}\` has another type`;
    throw new InvalidOptionError("--partition-by", message);
  }
  return (columns.get(name) ?? []).map((value) => {
    if (value === null || value === undefined) return `${encodeURIComponent(name)}=${noValue}`;
    const text = value instanceof Uint8Array ? Buffer.from(value).toString("utf8") : String(value);
    return `${encodeURIComponent(name)}=${encodeURIComponent(text)}`;
  });
}

/** Whether stored values are readable as they are, without a conversion by a logical type. */
function isPlain({ type, converted_type: converted, logical_type: logical }: SchemaElement) {
  const hasMeaning = logical !== undefined && logical.type !== "STRING";
  const isText = type === "BYTE_ARRAY" && (converted === "UTF8" || logical?.type === "STRING");
  const isNumber = type === "INT32" || type === "INT64" || type === "BOOLEAN";
  const isSigned = converted === undefined || converted.startsWith("INT_");
  return !hasMeaning && (isText || (isNumber && isSigned));
}

// Parquet fixtures of the tests, and their columns as plain values.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Column } from "../../../src/data/columnar/column.ts";
import { readFooter } from "../../../src/data/parquet/footer.ts";
import { readParquet } from "../../../src/data/parquet/read-parquet.ts";
import { shapeOf } from "../../../src/data/parquet/shapes.ts";
import { openRanges, type RangeReader } from "../../../src/data/tables/byte-ranges.ts";

/** The folder of files that pyarrow wrote (make.py), each with its values as JSON. */
export const fixtures = "test/fixtures/parquet";

/** The names of pyarrow's files without endings. */
export const fixtureNames = ["flat", "lists", "edges"].flatMap((folder) =>
  readdirSync(join(fixtures, folder))
    .filter((name) => name.endsWith(".parquet"))
    .map((name) => join(folder, name.slice(0, -".parquet".length))),
);

/** A value as make.py writes it. */
export type PlainValue = string | number | boolean | null | readonly PlainValue[];

/** The values of a file by pyarrow. */
export function expectedOf(name: string): {
  readonly rows: number;
  readonly columns: Record<string, readonly PlainValue[]>;
} {
  return JSON.parse(readFileSync(join(fixtures, `${name}.json`), "utf8"));
}

/** A file made of bytes in memory. */
export function rangesOf(bytes: Uint8Array, path = "memory.parquet"): RangeReader {
  return {
    path,
    size: bytes.length,
    async read(start, end) {
      const out = new Uint8Array(end - start + 8);
      out.set(bytes.subarray(start, end));
      return out;
    },
    async close() {},
  };
}

/** The rows of the named columns, or of all, as plain values by column. */
export async function readColumns(
  from: string | RangeReader,
  names: readonly string[],
  isId = false,
): Promise<Record<string, PlainValue[]>> {
  const file = typeof from === "string" ? await openRanges(from) : from;
  try {
    const footer = await readFooter(file);
    const wanted = names.map((name) => {
      const shape = shapeOf(footer.schema, name);
      if (shape === undefined) throw new Error(`no column ${name}`);
      return { shape, isId };
    });
    return await plainColumns(wanted, readParquet(file, footer, wanted));
  } finally {
    await file.close();
  }
}

/** The rows of all batches as plain values, by column. */
export async function plainColumns(
  wanted: readonly { readonly shape: { readonly name: string; readonly list: string } }[],
  batches: AsyncIterable<{ readonly columns: ReadonlyMap<string, Column>; readonly rows: number }>,
): Promise<Record<string, PlainValue[]>> {
  const found: Record<string, PlainValue[]> = {};
  for (const { shape } of wanted) found[shape.name] = [];
  for await (const { columns, rows } of batches) {
    for (const { shape } of wanted) {
      const column = columns.get(shape.name);
      if (column === undefined) throw new Error(`no column ${shape.name}`);
      for (let row = 0; row < rows; row++) {
        found[shape.name]?.push(plainValue(column, row, shape.list !== "none"));
      }
    }
  }
  return found;
}

/** The value of a row in the form that make.py writes. */
export function plainValue(column: Column, row: number, isList: boolean): PlainValue {
  if (column.form === "numbers") {
    const value = column.values[row] as number;
    return Number.isNaN(value) ? null : Number.isFinite(value) ? value : value > 0 ? "inf" : "-inf";
  }
  if (column.present?.[row] === 0) return null;
  const values: PlainValue[] = [];
  for (let i = column.offsets[row] as number; i < (column.offsets[row + 1] as number); i++) {
    const value = column.form === "ids" ? idAt(column, i) : textAt(column, i);
    values.push(column.weights === undefined ? value : [value, column.weights[i] as number]);
  }
  return isList ? values : (values[0] ?? null);
}

function idAt(column: Extract<Column, { form: "ids" }>, i: number): string {
  const id = column.ids[i] as bigint;
  return String(column.isUnsigned === true ? BigInt.asUintN(64, id) : id);
}

function textAt(column: Extract<Column, { form: "texts" }>, i: number): string {
  return column.dictionary[column.codes[i] as number] as string;
}

/**
 * The form in which our reader returns a value of pyarrow: a number for numeric columns not read as
 * ids, float32 weights, no missing list entries.
 */
export function asRead(column: string, value: PlainValue, isId: boolean): PlainValue {
  const isNumber = !isId && numeric.test(column) && typeof value === "string";
  return isNumber ? Number(value) : valueRead(value, isId);
}

function valueRead(value: PlainValue, isId: boolean, depth = 0): PlainValue {
  if (Array.isArray(value)) {
    if (depth === 1) return [value[0] as PlainValue, Math.fround(value[1] as number)];
    return value.filter((one) => one !== null).map((one) => valueRead(one, true, 1));
  }
  if (typeof value === "boolean") return isId ? String(value) : Number(value);
  return value;
}

const numeric = /^(u?int\d+|few|steps|struct.*)$/;

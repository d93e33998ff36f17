// Reads Arrow files as rows of stored values without loss: decimals unchanged, timestamps in
// microseconds, or in nanoseconds if the file has them. Types that Parquet lacks are stored as
// readers would read them: integers of any width as 64 bits, weights of ids as the nearest float32,
// NaN as missing, and the members of a struct as columns.

import { Type } from "apache-arrow/fb/type";
import type { SchemaElement } from "hyparquet";
import {
  type ArrowField,
  type ArrowIndex,
  type ArrowLeaf,
  type ArrowShape,
  batchName,
  type Column,
  CorruptFile,
  type NumberColumn,
  openFrom,
  openIndex,
  type RangeReader,
  readArrow,
  shapeOf,
  unusableAt,
} from "../../../internal.ts";
import { elementsOf } from "./inferred-type.ts";
import {
  type RefusedColumns,
  type TableColumn,
  type TableRows,
  type TableSource,
  tableOf,
} from "./table-columns.ts";

/**
 * Opens files with the same columns, in any order of columns.
 * @throws InputUnusableError where a file cannot be read, or its columns differ
 */
export function openArrowTable(
  paths: readonly string[],
  refused?: RefusedColumns,
): Promise<TableSource> {
  return tableOf(paths, (path) => {
    return openFrom(path, async (file) => {
      const index = await openIndex(file);
      const shapes = index.schema.fields.flatMap(valueNames).flatMap((name) => {
        try {
          return shapeOf(index.schema, name) ?? [];
        } catch (cause) {
          const error = unusableAt({ kind: "arrow", path: file.path, column: name }, cause);
          if (refused === undefined || !(cause instanceof Error)) throw error;
          refused.set(name, cause.message);
          return [];
        }
      });
      return {
        columns: shapes.map(columnOf),
        rows: index.batches.reduce((sum, { rows }) => sum + rows, 0),
        chunks: (skipped) => rowsFrom(path, file, index, shapes, skipped),
        close: () => file.close(),
      };
    });
  });
}

/** Column names of a field: a struct gives one column per member, such as `user.id`. */
function valueNames(field: ArrowField): string[] {
  if (field.type !== Type.Struct_ || field.dictionary !== undefined) return [field.name];
  return field.children.flatMap(valueNames).map((name) => `${field.name}.${name}`);
}

/** The rows of a file after the first `skipped` ones. `shapes`: the shapes of all columns. */
async function* rowsFrom(
  path: string,
  file: RangeReader,
  index: ArrowIndex,
  shapes: readonly ArrowShape[],
  skipped: number,
): AsyncGenerator<TableRows> {
  const wanted = shapes.map((shape) => ({ shape, isId: isId(shape), isRaw: isUnits(shape) }));
  for await (const batch of readArrow(file, index, wanted)) {
    const from = Math.max(0, skipped - batch.firstRow);
    if (from >= batch.rows) continue;
    const columns = new Map(
      wanted.map((own) => {
        const { shape } = own;
        const column = batch.columns.get(batchName(own));
        try {
          const values = column === undefined ? [] : storedValues(shape, column, batch.rows);
          return [shape.name, values.slice(from)] as const;
        } catch (cause) {
          throw unusableAt({ kind: "arrow", path: file.path, column: shape.name }, cause);
        }
      }),
    );
    const placeOf = (row: number) => `row ${batch.firstRow + from + row + 1} of ${file.path}`;
    yield { rows: batch.rows - from, file: path, columns, placeOf };
  }
}

/** Whether to read a column as ids, which keep all bits of integers. */
function isId({ leaf, list }: ArrowShape): boolean {
  return leaf.kind === "integer" || list !== "none";
}

/** Whether to read raw units: decimals and timestamps would be rounded as float64. */
function isUnits({ leaf, list }: ArrowShape): boolean {
  return list === "none" && leaf.compared.type.kind === "units";
}

function columnOf({ name, list, leaf }: ArrowShape): TableColumn {
  const inner = leaf.kind === "integer" ? "INT64" : "STRING";
  if (list === "plain") return { name, elements: elementsOf(name, `list<${inner}>`) };
  if (list === "weighted") return { name, elements: elementsOf(name, `map<${inner}, DOUBLE>`) };
  return { name, elements: [{ name, repetition_type: "OPTIONAL", ...leafType(leaf) }] };
}

function leafType({ kind, field }: ArrowLeaf): Omit<SchemaElement, "name"> {
  switch (kind) {
    case "integer":
      return field.isUnsigned && field.bits === 64
        ? { type: "INT64", converted_type: "UINT_64" }
        : { type: "INT64" };
    case "fraction":
      if (field.type === Type.Decimal) return decimalType(field);
      return { type: field.bits <= 32 ? "FLOAT" : "DOUBLE" };
    case "boolean":
      return { type: "BOOLEAN" };
    case "moment":
      if (field.type === Type.Date) return { type: "INT32", converted_type: "DATE" };
      return field.divisor === nanoseconds
        ? { type: "INT64", logical_type: nanosecondType }
        : { type: "INT64", converted_type: "TIMESTAMP_MICROS" };
    case "text":
      return isText(field.type)
        ? { type: "BYTE_ARRAY", converted_type: "UTF8" }
        : { type: "BYTE_ARRAY" };
    default:
      return kind satisfies never;
  }
}

const nanoseconds = 1e9;
const nanosecondType = { type: "TIMESTAMP", isAdjustedToUTC: true, unit: "NANOS" } as const;

function decimalType(field: ArrowField): Omit<SchemaElement, "name"> {
  const { size: precision, divisor } = field;
  const scale = Math.round(Math.log10(divisor));
  const fixed = { type: "FIXED_LEN_BYTE_ARRAY", type_length: decimalBytes(field) } as const;
  const logical_type = { type: "DECIMAL", precision, scale } as const;
  return { ...fixed, converted_type: "DECIMAL", precision, scale, logical_type };
}

/** Bytes that hold any signed decimal of the field's precision, whatever its width in the file. */
function decimalBytes({ size: precision }: ArrowField): number {
  return Math.ceil((precision * Math.log2(10) + 1) / 8);
}

/** Converts a big-endian decimal to `decimalBytes` bytes. @throws CorruptFile */
function decimalStore(field: ArrowField): (bytes: Buffer) => Buffer {
  const length = decimalBytes(field);
  return (bytes) => {
    const isNegative = ((bytes[0] ?? 0) & 0x80) !== 0;
    const sign = isNegative ? 0xff : 0;
    const lowest = bytes.subarray(Math.max(0, bytes.length - length));
    const isKept = bytes.subarray(0, bytes.length - lowest.length).every((one) => one === sign);
    if (!isKept || (((lowest[0] ?? 0) & 0x80) !== 0) !== isNegative) {
      throw new CorruptFile(`a decimal has more than its ${field.size} digits`);
    }
    return Buffer.concat([Buffer.alloc(length - lowest.length, sign), lowest]);
  };
}

function isText(type: Type): boolean {
  return type === Type.Utf8 || type === Type.LargeUtf8 || type === Type.Utf8View;
}

/** The stored values of a column, one per row. */
function storedValues({ list, leaf }: ArrowShape, column: Column, rows: number): unknown[] {
  if (column.form === "numbers") {
    const store = numberStore(leaf);
    return Array.from(column.values, (value) => (Number.isNaN(value) ? undefined : store(value)));
  }
  const { offsets, present, weights } = column;
  const storeId = leaf.kind === "moment" ? momentStore(leaf) : (id: bigint) => id;
  const isDecimal = leaf.field.type === Type.Decimal;
  const storeText = isDecimal ? decimalStore(leaf.field) : (bytes: Buffer) => bytes;
  const entryAt =
    column.form === "ids"
      ? (at: number) => storeId(column.ids[at] ?? 0n)
      : (at: number) =>
          storeText(Buffer.from(column.dictionary[column.codes[at] ?? 0] ?? "", "latin1"));
  return Array.from({ length: rows }, (_, row) => {
    const [from, end] = [offsets[row] ?? 0, offsets[row + 1] ?? 0];
    if (list === "none") return from === end ? undefined : entryAt(from);
    if (present?.[row] === 0) return undefined;
    return Array.from({ length: end - from }, (_one, i) => {
      const at = from + i;
      return list === "plain" ? entryAt(at) : { key: entryAt(at), value: weights?.[at] ?? 1 };
    });
  });
}

function numberStore({ kind }: ArrowLeaf): (value: NumberColumn["values"][number]) => unknown {
  return kind === "boolean" ? (value) => value !== 0 : (value) => value;
}

/** Converts dates to days, and other timestamps to microseconds or nanoseconds. */
function momentStore({ field: { type, bits, divisor } }: ArrowLeaf) {
  if (type !== Type.Date) {
    const factor = divisor === nanoseconds ? 1n : BigInt(1e6 / divisor);
    return (units: bigint) => {
      const stored = units * factor;
      if (BigInt.asIntN(64, stored) === stored) return stored;
      throw new CorruptFile("a timestamp in microseconds does not fit into 64 bits");
    };
  }
  const day = bits === 32 ? 1 : 86_400 * divisor;
  return (units: bigint) => Math.floor(Number(units) / day);
}

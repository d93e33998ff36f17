// Our decoding against hyparquet's: the same values of every column of every file. And schemas that
// pyarrow does not write: older forms of lists, and unsupported ones.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { parquetReadObjects, parquetSchema, type SchemaElement } from "hyparquet";
import { Unpacker } from "../../../src/data/parquet/decode/codecs.ts";
import { pageDecoders } from "../../../src/data/parquet/decode/page-decoders.ts";
import { shapeOf } from "../../../src/data/parquet/shapes.ts";
import { MemoryBudget } from "../../../src/data/tables/memory-budget.ts";
import { PieceMemory } from "../../../src/data/tables/piece-memory.ts";
import { readyZstd } from "../../../src/data/tables/zstd.ts";
import {
  expectedOf,
  fixtureNames,
  fixtures,
  type PlainValue,
  readColumns,
} from "./parquet-files.ts";

/**
 * Columns that hyparquet returns in another form: bytes as text, decimals as rounded products,
 * times to the millisecond, maps as objects with unique keys, and pairs with nulls in other rows
 * than pyarrow.
 */
const others = new Set([
  ...["bytes", "fixed", "decimal", "wide", "uint8", "uint32", "uint64"],
  ...["micros", "map", "named", "pairs"],
]);
/**
 * The codecs that hyparquet lacks are ours, so that this test compares what lies in the pages; the
 * values of every codec are compared with pyarrow's (tables/reading.test.ts).
 */
const compressors = Object.fromEntries(
  ["GZIP", "BROTLI", "ZSTD", "LZ4_RAW"].map((codec) => {
    const unpack = (packed: Uint8Array, size: number) => {
      const memory = new PieceMemory(new MemoryBudget(packed.length));
      return new Unpacker(codec, pageDecoders(), memory).unpack(packed, size, 0).slice(0, size);
    };
    return [codec, unpack];
  }),
);
/** hyparquet 1.31.5 fails on this file, whose pages are of version 2. */
const unread = "lists/zstd-v2";

/** A value of hyparquet in the form of ours. */
function plainOf(value: unknown, depth = 0): PlainValue {
  if (value === null || value === undefined) return null;
  if (value instanceof Date) return value.getTime() / 1000;
  if (typeof value === "string") return Buffer.from(value, "utf8").toString("latin1");
  if (typeof value === "bigint") return String(value);
  if (Array.isArray(value)) {
    return value.filter((one) => one !== null).map((one) => plainOf(one, depth + 1));
  }
  if (typeof value === "boolean") return depth > 0 ? String(value) : Number(value);
  if (typeof value === "object") {
    const [id, weight] = Object.values(value);
    return [plainOf(id, 1), Math.fround(Number(weight))];
  }
  if (typeof value !== "number") return null;
  if (depth > 0) return String(value);
  return Number.isFinite(value) ? value : value > 0 ? "inf" : "-inf";
}

for (const name of fixtureNames.filter((one) => one !== unread)) {
  test(`${name}: columns have the values that hyparquet reads`, async (t) => {
    const path = join(fixtures, `${name}.parquet`);
    const bytes = readFileSync(path);
    const file = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
    await readyZstd();
    const rows = await parquetReadObjects({ file: file as ArrayBuffer, compressors });
    const columns = Object.keys(expectedOf(name).columns).filter((column) => {
      return !others.has(column) && !column.includes(".");
    });
    const found = await readColumns(path, columns);
    t.true(columns.length > 0);
    for (const column of columns) {
      const theirs = rows.map((row) => {
        const value: unknown = row[column];
        return typeof value === "bigint" ? Number(value) : plainOf(value);
      });
      t.deepEqual(found[column], theirs, column);
    }
  });
}

const list = { name: "ids", repetition_type: "OPTIONAL", converted_type: "LIST" } as const;
const leaf = { repetition_type: "REPEATED", type: "INT32" } as const;
/** A schema, the definition level from which an entry exists, and the level of a value. */
const forms: readonly [string, SchemaElement[], entry: number, value: number][] = [
  [
    "three levels",
    [
      { ...list, num_children: 1 },
      { name: "list", repetition_type: "REPEATED", num_children: 1 },
      { name: "element", repetition_type: "OPTIONAL", type: "INT32" },
    ],
    2,
    3,
  ],
  [
    "two levels",
    [
      { ...list, num_children: 1 },
      { name: "array", ...leaf },
    ],
    2,
    2,
  ],
  ["a repeated leaf", [{ name: "ids", ...leaf }], 1, 1],
  [
    "Hive's names",
    [
      { ...list, num_children: 1 },
      { name: "bag", repetition_type: "REPEATED", num_children: 1 },
      { name: "array_element", repetition_type: "OPTIONAL", type: "INT32" },
    ],
    2,
    3,
  ],
];

for (const [title, schema, entryLevel, definitionMax] of forms) {
  test(`a list of ${title} is read as a list`, (t) => {
    const root = { name: "root", num_children: 1 };
    const shape = shapeOf(parquetSchema({ schema: [root, ...schema] } as never), "ids");
    t.like(shape, { list: "plain", entryLevel });
    t.is(shape?.leaf.definitionMax, definitionMax);
  });
}

const refused: readonly [string, SchemaElement[], RegExp][] = [
  [
    "a list in a list",
    [
      { ...list, num_children: 1 },
      { name: "list", repetition_type: "REPEATED", num_children: 1 },
      { name: "element", repetition_type: "OPTIONAL", converted_type: "LIST", num_children: 1 },
      { name: "list", ...leaf },
    ],
    /its entries are neither values nor pairs of id and weight/,
  ],
  [
    "a time of day",
    [{ name: "ids", repetition_type: "OPTIONAL", type: "INT32", converted_type: "TIME_MILLIS" }],
    /it has the type TIME_MILLIS, which is not read/,
  ],
  [
    "a list of fractions",
    [
      { ...list, num_children: 1 },
      { name: "array", repetition_type: "REPEATED", type: "DOUBLE" },
    ],
    /it is a list of fractions or times/,
  ],
  [
    "a struct",
    [
      { name: "ids", repetition_type: "OPTIONAL", num_children: 2 },
      { name: "a", repetition_type: "OPTIONAL", type: "INT32" },
      { name: "b", repetition_type: "OPTIONAL", type: "INT32" },
    ],
    /it is a struct; name one of its members, `ids\.a`, `ids\.b`/,
  ],
];

for (const [title, schema, message] of refused) {
  test(`${title} is refused by name`, (t) => {
    const root = { name: "root", num_children: 1 };
    const tree = parquetSchema({ schema: [root, ...schema] } as never);
    t.throws(() => shapeOf(tree, "ids"), { message });
  });
}

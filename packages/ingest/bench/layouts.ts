// Writes the rows of the bench (ladder.bench.ts) as Parquet files, in each layout.
//
//   map        one column for each kind of feature, as rows are logged: `numbers` is a map from key
//              to value; a map of lists is three columns, `listKeys`, `listLengths` and `listIds`
//   flattened  one column for each feature, in a given order

import { closeSync, openSync, writeSync } from "node:fs";
import type { SchemaElement } from "hyparquet";
import { ByteWriter, ParquetWriter } from "hyparquet-writer";
import type { Feature, ListValues, Logged } from "./features.ts";

/** A column whose values are made only when they are written. */
interface LaidColumn {
  readonly name: string;
  readonly schema: readonly SchemaElement[];
  readonly valuesOf: (first: number, end: number) => unknown[];
}

/** Writes the map layout. `groupRows`: rows of a row group. */
export function writeMaps(path: string, logged: Logged, groupRows: number): void {
  const lists = logged.features.flatMap(({ key, values }) => {
    return values.kind === "list" ? [{ key, values }] : [];
  });
  const listColumn = (
    name: string,
    of: (key: number, values: ListValues, row: number) => unknown[],
  ): LaidColumn => ({
    name,
    schema: listSchema(name),
    valuesOf: rowsOf((row) => {
      return lists.flatMap(({ key, values }) => {
        return values.present[row] === 1 ? of(key, values, row) : [];
      });
    }),
  });
  writeColumns(path, logged.rows, groupRows, [
    { name: "numbers", schema: mapSchema("numbers"), valuesOf: rowsOf(numbersOf(logged)) },
    listColumn("listKeys", (key) => [BigInt(key)]),
    listColumn("listLengths", (_, { offsets }, row) => {
      return [BigInt((offsets[row + 1] ?? 0) - (offsets[row] ?? 0))];
    }),
    listColumn("listIds", (_, values, row) => idsOf(values, row)),
  ]);
}

/** Writes one column for each feature, in the order of `features`. */
export function writeFlattened(
  path: string,
  rows: number,
  features: readonly Feature[],
  groupRows: number,
): void {
  const columns = features.map(({ name, values }): LaidColumn => {
    if (values.kind === "number") {
      const { numbers } = values;
      const schema = [{ name, type: "FLOAT", repetition_type: "OPTIONAL" } as const];
      const at = (row: number) => {
        return Number.isNaN(numbers[row]) ? undefined : numbers[row];
      };
      return { name, schema, valuesOf: rowsOf(at) };
    }
    const at = (row: number) => (values.present[row] === 1 ? idsOf(values, row) : undefined);
    return { name, schema: listSchema(name), valuesOf: rowsOf(at) };
  });
  writeColumns(path, rows, groupRows, columns);
}

function rowsOf(at: (row: number) => unknown): LaidColumn["valuesOf"] {
  return (first, end) => Array.from({ length: end - first }, (_, i) => at(first + i));
}

function numbersOf({ features }: Logged): (row: number) => { key: number; value: number }[] {
  const numbers = features.flatMap(({ key, values }) => {
    return values.kind === "number" ? [{ key, numbers: values.numbers }] : [];
  });
  return (row) =>
    numbers.flatMap(({ key, numbers: all }) => {
      const value = all[row] ?? Number.NaN;
      return Number.isNaN(value) ? [] : [{ key, value }];
    });
}

function idsOf({ offsets, ids }: ListValues, row: number): bigint[] {
  return Array.from(ids.subarray(offsets[row], offsets[row + 1]), BigInt);
}

function listSchema(name: string): SchemaElement[] {
  return [
    { name, repetition_type: "OPTIONAL", num_children: 1, converted_type: "LIST" },
    { name: "list", repetition_type: "REPEATED", num_children: 1 },
    { name: "element", type: "INT64", repetition_type: "REQUIRED" },
  ];
}

function mapSchema(name: string): SchemaElement[] {
  return [
    { name, repetition_type: "OPTIONAL", num_children: 1, converted_type: "MAP" },
    { name: "key_value", repetition_type: "REPEATED", num_children: 2 },
    { name: "key", type: "INT32", repetition_type: "REQUIRED" },
    { name: "value", type: "FLOAT", repetition_type: "REQUIRED" },
  ];
}

/** Writes with Snappy, without statistics; one column of a row group is in memory at a time. */
function writeColumns(
  path: string,
  rows: number,
  groupRows: number,
  columns: readonly LaidColumn[],
): void {
  const file = openSync(path, "wx");
  try {
    const bytes = new ByteWriter();
    const flush = () => {
      writeSync(file, bytes.getBytes());
      bytes.index = 0;
    };
    const writer = new ParquetWriter({
      writer: Object.assign(bytes, { flush, finish: flush }),
      schema: [
        { name: "root", num_children: columns.length },
        ...columns.flatMap(({ schema }) => schema),
      ],
      codec: "SNAPPY",
      statistics: false,
    });
    for (let first = 0; first < rows; first += groupRows) {
      const end = Math.min(rows, first + groupRows);
      const columnData = columns.map(({ name, valuesOf }) => {
        return {
          name,
          get data() {
            return valuesOf(first, end);
          },
        };
      });
      void writer.write({ rowGroupSize: groupRows, columnData });
    }
    void writer.finish();
  } finally {
    closeSync(file);
  }
}

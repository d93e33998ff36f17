// The files that the ingest bench reads: rows of the shape of RM1 (a label, 13 dense features, 26
// ids: Table I of PreSto, ISCA 2024) as Parquet, CSV and Criteo text, and rows of a list of 20 ids.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { SchemaElement } from "hyparquet";
import { ByteWriter, ParquetWriter } from "hyparquet-writer";
import { RandomStream } from "../../src/ports/random.ts";

export const denseNames = Array.from({ length: 13 }, (_, i) => `I${i + 1}`);
export const idNames = Array.from({ length: 26 }, (_, i) => `C${i + 1}`);
/** Ids of each list. */
export const idsOfList = 20;

const groupRows = 25_000;
/** Distinct ids of a column, the small ones more popular. */
const idsMax = 2000;

/** Writes the files, of `rows` rows each, and returns their paths. */
export async function writeFiles(home: string, rows: number) {
  const random = new RandomStream(1, 1);
  const drawn = (make: () => number) => Float64Array.from({ length: rows }, make);
  const idOf = (below: number) => Math.floor(below * (random.below(65_536) / 65_536) ** 3);
  const label = drawn(() => random.below(2));
  const dense = denseNames.map(() => drawn(() => random.below(1000)));
  const ids = idNames.map(() => drawn(() => 2_654_435_761 * idOf(idsMax)));
  const path = (name: string) => join(home, name);
  writeParquet(path("rm1.parquet"), [
    { name: "label", type: "INT32", data: [...label] },
    ...denseNames.map((name, i) => ({ name, type: "FLOAT" as const, data: [...(dense[i] ?? [])] })),
    ...idNames.map((name, i) => {
      return { name, type: "INT64" as const, data: Array.from(ids[i] ?? [], BigInt) };
    }),
  ]);
  const lists = Array.from({ length: rows }, () =>
    Array.from({ length: idsOfList }, () => idOf(100_000)),
  );
  writeParquet(path("lists.parquet"), [{ name: "C1", type: "INT32", data: lists, isList: true }]);
  const lines = Array.from({ length: rows }, (_, row) => {
    return [label, ...dense, ...ids].map((column) => column[row] ?? 0);
  });
  const header = ["label", ...denseNames, ...idNames].join(",");
  writeFileSync(path("rm1.csv"), `${header}\n${lines.map((line) => line.join(",")).join("\n")}\n`);
  const hexadecimal = (value: number, i: number) => {
    return i < 14 ? String(value) : (value % 2 ** 32).toString(16).padStart(8, "0");
  };
  const criteo = lines.map((line) => line.map(hexadecimal).join("\t")).join("\n");
  writeFileSync(path("criteo.tsv"), `${criteo}\n`);
  return {
    rm1: path("rm1.parquet"),
    lists: path("lists.parquet"),
    csv: path("rm1.csv"),
    criteo: path("criteo.tsv"),
  };
}

export interface WrittenColumn {
  readonly name: string;
  readonly type: "INT32" | "INT64" | "FLOAT";
  readonly data: readonly unknown[];
  readonly isList?: boolean;
}

/** Writes a Parquet file with Snappy, and with a dictionary where the writer finds one useful. */
export function writeParquet(
  path: string,
  columns: readonly WrittenColumn[],
  rowGroupSize: number = groupRows,
): void {
  const bytes = new ByteWriter();
  const writer = new ParquetWriter({
    writer: bytes,
    schema: [
      { name: "root", num_children: columns.length },
      ...columns.flatMap(({ name, type, isList }): SchemaElement[] =>
        isList === true
          ? [
              { name, repetition_type: "OPTIONAL", num_children: 1, converted_type: "LIST" },
              { name: "list", repetition_type: "REPEATED", num_children: 1 },
              { name: "element", type, repetition_type: "OPTIONAL" },
            ]
          : [{ name, type, repetition_type: "OPTIONAL" }],
      ),
    ],
    codec: "SNAPPY",
  });
  void writer.write({
    rowGroupSize,
    columnData: columns.map(({ name, data }) => ({ name, data: [...data] })),
  });
  void writer.finish();
  writeFileSync(path, bytes.getBytes());
}

// Every file and stream of Parquet and Arrow that pyarrow wrote holds, column by column, what
// pyarrow says is in it: of Arrow plain, packed with LZ4 and zstd, with dictionaries that are one,
// grow or change, of older metadata, and with texts as views.

import { join } from "node:path";
import test from "ava";
import * as arrow from "../arrow/arrow-files.ts";
import * as parquet from "../parquet/parquet-files.ts";

const files = [
  ...parquet.fixtureNames.map((name) => ({
    path: join(parquet.fixtures, `${name}.parquet`),
    columns: parquet.expectedOf(name).columns,
    read: parquet.readColumns,
  })),
  ...arrow.fixtureNames.map((name) => ({
    path: join(arrow.fixtures, name),
    columns: arrow.expectedIn(name),
    read: arrow.readColumns,
  })),
];

test("there are files of both kinds", (t) => {
  t.true(parquet.fixtureNames.length >= 12 && arrow.fixtureNames.length >= 12);
});

for (const { path, columns, read } of files) {
  test(`${path}: every column is as pyarrow says`, async (t) => {
    for (const isId of [false, true]) {
      const found = await read(path, Object.keys(columns), isId);
      for (const [column, values] of Object.entries(columns)) {
        const expected = values.map((value) => parquet.asRead(column, value, isId));
        t.deepEqual(found[column], expected, `${column}, ${isId ? "as ids" : "as numbers"}`);
      }
    }
  });
}

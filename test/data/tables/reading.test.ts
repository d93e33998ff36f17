// Every Parquet and Arrow file and stream of pyarrow has the values that pyarrow reads, column by
// column. Arrow: plain, compressed with LZ4 and zstd, with dictionaries that are single, growing or
// replaced, with older metadata, and with string views.

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

test("there are fixture files of both kinds", (t) => {
  t.true(parquet.fixtureNames.length >= 12 && arrow.fixtureNames.length >= 12);
});

for (const { path, columns, read } of files) {
  test(`${path}: every column has the values of pyarrow`, async (t) => {
    for (const isId of [false, true]) {
      const found = await read(path, Object.keys(columns), isId);
      for (const [column, values] of Object.entries(columns)) {
        const expected = values.map((value) => parquet.asRead(column, value, isId));
        t.deepEqual(found[column], expected, `${column}, ${isId ? "as ids" : "as numbers"}`);
      }
    }
  });
}

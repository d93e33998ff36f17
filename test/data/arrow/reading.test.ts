// Every file and stream that pyarrow wrote holds, column by column, what pyarrow says is in it:
// plain, packed with LZ4 and zstd, with dictionaries that are one, grow or change, of older
// metadata, and with texts as views.

import { join } from "node:path";
import test from "ava";
import { asRead } from "../parquet/parquet-files.ts";
import { expectedIn, fixtureNames, fixtures, readColumns } from "./arrow-files.ts";

for (const name of fixtureNames) {
  test(`${name}: every column is as pyarrow says`, async (t) => {
    const columns = expectedIn(name);
    for (const isId of [false, true]) {
      const found = await readColumns(join(fixtures, name), Object.keys(columns), isId);
      for (const [column, values] of Object.entries(columns)) {
        const expected = values.map((value) => asRead(column, value, isId));
        t.deepEqual(found[column], expected, `${column}, ${isId ? "as ids" : "as numbers"}`);
      }
    }
  });
}

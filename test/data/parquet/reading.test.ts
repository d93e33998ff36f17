// Every file that pyarrow wrote holds, column by column, what pyarrow says is in it.

import { join } from "node:path";
import test from "ava";
import { asRead, expectedOf, fixtureNames, fixtures, readColumns } from "./parquet-files.ts";

for (const name of fixtureNames) {
  test(`${name}: every column is as pyarrow says`, async (t) => {
    const { columns } = expectedOf(name);
    for (const isId of [false, true]) {
      const found = await readColumns(
        join(fixtures, `${name}.parquet`),
        Object.keys(columns),
        isId,
      );
      for (const [column, values] of Object.entries(columns)) {
        const expected = values.map((value) => asRead(column, value, isId));
        t.deepEqual(found[column], expected, `${column}, ${isId ? "as ids" : "as numbers"}`);
      }
    }
  });
}

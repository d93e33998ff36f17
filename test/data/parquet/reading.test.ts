// Every file that pyarrow wrote holds, column by column, what pyarrow says is in it.

import { join } from "node:path";
import test from "ava";
import {
  expectedOf,
  fixtureNames,
  fixtures,
  type PlainValue,
  readColumns,
} from "./parquet-files.ts";

/** What pyarrow's values become: numbers where asked, float32 weights, missing entries left out. */
function asRead(value: PlainValue, isId: boolean, depth = 0): PlainValue {
  if (Array.isArray(value)) {
    if (depth === 1) return [value[0] as PlainValue, Math.fround(value[1] as number)];
    return value.filter((one) => one !== null).map((one) => asRead(one, true, 1));
  }
  if (typeof value === "boolean") return isId ? String(value) : Number(value);
  return value;
}

const numeric = /^(u?int\d+|few|steps|struct.*)$/;

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
        const expected = values.map((value) => {
          const isNumber = !isId && numeric.test(column) && typeof value === "string";
          return isNumber ? Number(value) : asRead(value, isId);
        });
        t.deepEqual(found[column], expected, `${column}, ${isId ? "as ids" : "as numbers"}`);
      }
    }
  });
}

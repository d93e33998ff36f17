// Arrow fixtures of the tests, and their columns as plain values.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { openIndex } from "../../../src/data/arrow/messages.ts";
import { readArrow } from "../../../src/data/arrow/read-arrow.ts";
import { shapeOf } from "../../../src/data/arrow/shapes.ts";
import { openRanges, type RangeReader } from "../../../src/data/tables/byte-ranges.ts";
import { expectedOf, type PlainValue, plainColumns } from "../parquet/parquet-files.ts";

/**
 * The folder of Arrow files that pyarrow wrote (make.py) from the tables of the Parquet fixtures.
 */
export const fixtures = "test/fixtures/arrow";

/** The files whose values are recorded as JSON. */
export const fixtureNames = readdirSync(fixtures).filter((name) => /^(flat|lists)-/.test(name));

/** The bytes of a file that pyarrow wrote. */
export function bytesOf(name: string): Buffer {
  return readFileSync(join(fixtures, name));
}

/** The values of a file by pyarrow, by column. */
export function expectedIn(name: string): Record<string, readonly PlainValue[]> {
  return expectedOf(name.startsWith("flat") ? "flat/snappy" : "lists/snappy").columns;
}

/** The rows of some columns as plain values, by column. */
export async function readColumns(
  from: string | RangeReader,
  names: readonly string[],
  isId = false,
): Promise<Record<string, PlainValue[]>> {
  const file = typeof from === "string" ? await openRanges(from) : from;
  try {
    const index = await openIndex(file);
    const wanted = names.map((name) => {
      const shape = shapeOf(index.schema, name);
      if (shape === undefined) throw new Error(`no column ${name}`);
      return { shape, isId };
    });
    return await plainColumns(wanted, readArrow(file, index, wanted));
  } finally {
    await file.close();
  }
}

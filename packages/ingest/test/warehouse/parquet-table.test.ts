// Parquet files as rows of stored values, which equal pyarrow's; damaged files are refused.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { InputUnusableError } from "../../../../src/errors/errors.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { fixtures } from "../../../../test/data/parquet/parquet-files.ts";
import { openParquetTable } from "../../warehouse/parquet-table.ts";

/** All rows of a file, by column. */
async function columnsOf(path: string, from = 0): Promise<Record<string, unknown[]>> {
  const found: Record<string, unknown[]> = {};
  for await (const { columns } of (await openParquetTable([path])).chunks(from)) {
    for (const [name, values] of columns) {
      found[name] = [...(found[name] ?? []), ...values];
    }
  }
  return found;
}

/** Values as in JSON: 64-bit integers become numbers, bytes text. */
function plain(value: unknown): unknown {
  if (typeof value === "bigint") return Number(value);
  if (value instanceof Uint8Array) return Buffer.from(value).toString("utf8");
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value !== "object" || value === null) return value ?? null;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, plain(one)]));
}

test("structs, lists of structs and maps equal pyarrow's, missing parts included", async (t) => {
  for (const name of ["nested/v1", "nested/v2"]) {
    const path = join(fixtures, `${name}.parquet`);
    const expected = JSON.parse(readFileSync(join(fixtures, `${name}.json`), "utf8"));
    expected.map = expected.map.map((one: [string, unknown][] | null) => {
      return one?.map(([key, value]) => ({ key, value })) ?? null;
    });
    t.deepEqual(plain(await columnsOf(path)), expected, name);
    const later = Object.fromEntries(
      Object.entries<unknown[]>(expected).map(([column, values]) => [column, values.slice(60)]),
    );
    t.deepEqual(plain(await columnsOf(path, 60)), later, "without the first 60 rows");
  }
});

test("pages with false sizes and counts are refused, and no read is left pending", async (t) => {
  const path = join(startDirectory(t), "damaged.parquet");
  const whole = readFileSync(join(fixtures, "nested", "v2.parquet"));
  // Three damaged files: the first page's header has no sizes; it has 2,147,483,647 values; the
  // pages of all columns have changed bytes, so several leaves of a struct fail at once.
  const withoutSizes = Buffer.from(whole);
  withoutSizes.set([0x15, 0x00, 0x00], 4);
  const withManyValues = Buffer.from(whole);
  withManyValues.set(manyValues, 4);
  const noise = Buffer.from(whole);
  noise.fill(0xff, 40, 1500);
  for (const bytes of [withoutSizes, withManyValues, noise]) {
    writeFileSync(path, bytes);
    await t.throwsAsync(columnsOf(path), { instanceOf: InputUnusableError });
  }
  await new Promise((resume) => setTimeout(resume, 20));
});

/** A page of version 1 that states 2³¹ - 1 values, plain encoding, in one byte. */
const manyValues = Buffer.from([
  ...[0x15, 0x00, 0x15, 0x02, 0x15, 0x02, 0x2c, 0x15, 0xfe, 0xff, 0xff, 0xff, 0x0f],
  ...[0x15, 0x00, 0x15, 0x06, 0x15, 0x06, 0x00, 0x00, 0x00],
]);

// Arrow files written as tables: the samples of the file, the types of its columns, and the files
// that are refused.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { prepareCache } from "../../../../src/data/cache/prepare-cache.ts";
import { tableFilesOf } from "../../../../src/data/files.ts";
import { dataOptions, type ResolvedParquetOptions } from "../../../../src/data/options.ts";
import { openTable } from "../../../../src/data/tables/open-table.ts";
import { wantedRows } from "../../../../src/data/tables/table-file.ts";
import { InputUnusableError } from "../../../../src/errors/errors.ts";
import { checkOptions } from "../../../../src/ports/check-options.ts";
import { realDisk } from "../../../../src/ports/disk.ts";
import { fixtureNames, fixtures } from "../../../../test/data/arrow/arrow-files.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { clicksAs, clickTables } from "../../../../test/data/parquet/click-columns.ts";
import { openArrowTable } from "../../warehouse/arrow-table.ts";
import { inspectWarehouse } from "../../warehouse/inspect-warehouse.ts";
import { writeWarehouse } from "../../warehouse/write-warehouse.ts";
import { contentsOf } from "./tables.ts";

for (const name of ["clicks.arrow", "clicks.arrows"]) {
  test(`a table of ${name} has the samples of the file`, async (t) => {
    const home = startDirectory(t);
    const out = join(home, "out");
    const report = await writeWarehouse([join(fixtures, name)], out);
    const samplesOf = async (ending: "arrow" | "parquet", more: object) => {
      const data = { ...clicksAs(ending, { cache: join(home, ending) }), ...more };
      return prepareCache(data, clickTables, realDisk);
    };
    const expected = await samplesOf("arrow", {});
    const found = await samplesOf("parquet", { paths: tableFilesOf([out]) });
    t.true(expected.samples > 200);
    t.is(found.digest, expected.digest);
    t.is(found.quarantine.count, expected.quarantine.count);
    t.true(report.rows > expected.samples);
  });
}

test("every Arrow file of the same rows makes the same table, whatever its layout", async (t) => {
  const home = startDirectory(t);
  const digests = new Map<string, Set<string>>();
  for (const name of fixtureNames) {
    const out = join(home, name);
    const { columns } = await writeWarehouse([join(fixtures, name)], out);
    const { digest, rows } = await contentsOf(out);
    const types = (await inspectWarehouse([out])).columns.map(({ type }) => type);
    const key = `${name.slice(0, 4)} ${columns.join()} ${types.join()} ${rows}`;
    digests.set(key, (digests.get(key) ?? new Set()).add(digest));
  }
  t.deepEqual(
    [...digests.values()].map(({ size }) => size),
    [1, 1, 1],
    "three groups: one file has seconds as nanoseconds",
  );
});

test("Arrow columns get the nearest Parquet types", async (t) => {
  const home = startDirectory(t);
  await writeWarehouse([join(fixtures, "clicks.arrow")], join(home, "out"));
  const { columns } = await inspectWarehouse([join(home, "out")]);
  const types = Object.fromEntries(columns.map(({ name, type }) => [name, type]));
  t.like(types, { label: "INT64", when: "TIMESTAMP_MICROS", scored: "map<INT64, DOUBLE>" });
});

test("a table of Arrow has the exact values that DuckDB finds in the same rows", async (t) => {
  const home = startDirectory(t);
  const edges = "test/fixtures/where";
  await writeWarehouse([join(edges, "edges.arrow")], join(home, "out"));
  const path = join(home, "out", "part-0.parquet");
  const found: [string, string, string, number[]][] = JSON.parse(
    readFileSync(join(edges, "edges.json"), "utf8"),
  );
  for (const [column, operation, bound, rows] of found) {
    // A float16 becomes a float32, and would be compared as one.
    if (column === "half") continue;
    const features = { label: "label", categorical: [{ column: "row", ids: "integer" }] };
    const where = [{ column, [operation]: bound }];
    const options = { kind: "parquet", paths: [path], ...features, where, batchSize: 8 };
    const data = checkOptions(dataOptions, options) as ResolvedParquetOptions;
    const opened = await openTable(path, data, [{ name: "row", rows: 20 }]);
    const kept: number[] = [];
    for await (const { batch, isWanted } of wantedRows(opened)) {
      const column = batch.columns.get("row");
      if (column?.form !== "ids") throw new TypeError("ids");
      for (let row = 0; row < batch.rows; row++)
        if (isWanted(row)) kept.push(Number(column.ids[row]));
    }
    await opened.close();
    t.deepEqual(kept, rows, `${column} ${operation} ${bound}`);
  }
});

test("rows to skip are left out across record batches and files", async (t) => {
  const path = join(fixtures, "clicks.arrow");
  const source = await openArrowTable([path, path]);
  const rows = await source.countRows();
  const placesFrom = async (from: number) => {
    const places: unknown[] = [];
    for await (const chunk of source.chunks(from)) {
      for (let row = 0; row < chunk.rows; row++) {
        places.push([chunk.placeOf(row), chunk.columns.get("user")?.[row]]);
      }
    }
    return places;
  };
  const all = await placesFrom(0);
  t.is(all.length, rows);
  for (const from of [1, 37, rows / 2 - 1, rows / 2, rows / 2 + 5, rows]) {
    t.deepEqual(await placesFrom(from), all.slice(from));
  }
  t.regex(String(all[0]), /row 1 of .*clicks\.arrow/);
});

test("files with other columns, and files that are no Arrow, are refused", async (t) => {
  const out = join(startDirectory(t), "out");
  const two = ["flat-plain.arrow", "lists-plain.arrow"].map((name) => join(fixtures, name));
  await t.throwsAsync(writeWarehouse(two, out), {
    instanceOf: InputUnusableError,
    message:
      /Expected files with the same columns, got another `\w+` in .*flat-plain\.arrow and in/,
  });
});

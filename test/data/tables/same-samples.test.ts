// The same rows as CSV, as Parquet and as Arrow, in a file and in a stream, give the same samples,
// byte for byte. pyarrow wrote the columnar files, and Python the CSV file
// (test/fixtures/parquet/make.py and arrow/make.py).

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { parquetWriteBuffer } from "hyparquet-writer";
import { readKeys } from "../../../src/data/cache/cache-facts.ts";
import { prepareCache } from "../../../src/data/cache/prepare-cache.ts";
import { parquet } from "../../../src/data/sources.ts";
import { realDisk } from "../../../src/ports/disk.ts";
import { prepare, startDirectory } from "../data-files.ts";
import { clickKeys, clicksAs, clickTables } from "../parquet/click-columns.ts";

const ofColumns = ["parquet", "arrow", "arrows"] as const;
/** Rows per row group of the Parquet file, and per record batch of the Arrow files. */
const blockRows = 150;

for (const [name, key] of Object.entries(clickKeys)) {
  test(`CSV, Parquet and Arrow have the same samples; key: ${name}`, async (t) => {
    const home = startDirectory(t);
    const prepared = (ending: "csv" | (typeof ofColumns)[number]) => {
      const data = clicksAs(ending, { cache: join(home, ending) });
      return prepareCache(data, clickTables, realDisk, undefined, key);
    };
    const csv = await prepared("csv");
    t.true(csv.samples > 200 && csv.quarantine.count > 5);
    // CSV lines are numbered one higher, as the first line is the header.
    const kept = csv.quarantine.kept.map(({ line, reason }) => {
      return { line: line - 1, reason, block: Math.floor((line - 2) / blockRows) };
    });
    for (const ending of ofColumns) {
      const other = await prepared(ending);
      t.is(other.digest, csv.digest, ending);
      t.is(other.samples, csv.samples);
      t.deepEqual(other.means, csv.means);
      t.deepEqual(other.warnings, csv.warnings);
      t.deepEqual(other.statistics, csv.statistics);
      const place = ending === "parquet" ? "rowGroup" : "recordBatch";
      t.deepEqual(
        other.quarantine.kept.map(({ file: _, ...rest }) => rest),
        kept.map(({ block, ...rest }) => ({ ...rest, [place]: block })),
        ending,
      );
      if (key === undefined) continue;
      t.deepEqual(readKeys(other.path, realDisk), readKeys(csv.path, realDisk));
    }
  });
}

test("numeric labels are the same in every format", async (t) => {
  const home = startDirectory(t);
  const [csv, ...others] = await Promise.all(
    (["csv", ...ofColumns] as const).map((ending) => {
      const numeric = { label: "ratio", numericLabels: ["ratio"], cache: join(home, ending) };
      return prepareCache(clicksAs(ending, numeric), clickTables, realDisk);
    }),
  );
  if (csv === undefined) return t.fail();
  t.true(csv.samples > 100);
  t.is(others.length, 3);
  for (const other of others) {
    t.is(other.digest, csv.digest);
    t.deepEqual(other.labelRanges, csv.labelRanges);
  }
});

test("`where` keeps the same rows of Arrow as of Parquet", async (t) => {
  const where = [
    { column: "user", from: 10, until: 90 },
    { column: "when", from: "2026-11-01" },
  ];
  const home = startDirectory(t);
  const [parquet, ...others] = await Promise.all(
    ofColumns.map((ending) => {
      const data = clicksAs(ending, { where, cache: join(home, ending) });
      return prepareCache(data, clickTables, realDisk);
    }),
  );
  if (parquet === undefined) return t.fail();
  t.true(parquet.samples > 50);
  t.is(others.length, 2);
  for (const other of others) t.is(other.digest, parquet.digest);
});

test("an integer beyond 2^53 is a positive label if all its digits are, as in text", async (t) => {
  const home = startDirectory(t);
  const path = join(home, "a.parquet");
  const [one, other] = [2n ** 53n, 2n ** 53n + 1n];
  const columnData = [
    { name: "label", data: [one, other, 7n, other], type: "INT64" as const },
    { name: "price", data: [1, 2, 3, 4], type: "INT32" as const },
  ];
  writeFileSync(path, new Uint8Array(parquetWriteBuffer({ columnData })));
  const named = { label: "label", dense: ["price"], categorical: [], batchSize: 8 };
  const positive = String(other);
  const { positives } = await prepare(parquet(path, { ...named, positive, cache: home }), []);
  t.is(positives, 2);
});

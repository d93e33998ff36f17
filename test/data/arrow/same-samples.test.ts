// The same rows as CSV, as Parquet and as Arrow are the same samples, byte for byte. pyarrow wrote
// the files of columns, and Python the CSV file (test/fixtures/parquet/make.py and arrow/make.py).

import { join } from "node:path";
import test from "ava";
import { readKeys } from "../../../src/data/cache/cache-keys.ts";
import { prepareCache } from "../../../src/data/cache/prepare-cache.ts";
import { realDisk } from "../../../src/ports/disk.ts";
import { startDirectory } from "../data-files.ts";
import { clickKeys, clicksAs, clickTables } from "../parquet/click-columns.ts";

for (const [name, key] of Object.entries(clickKeys)) {
  test(`CSV, Parquet and Arrow have the same samples; key: ${name}`, async (t) => {
    const cache = startDirectory(t);
    const [csv, parquet, file, stream] = await Promise.all(
      (["csv", "parquet", "arrow", "arrows"] as const).map((ending) => {
        const data = clicksAs(ending, { cache: join(cache, ending) });
        return prepareCache(data, clickTables, realDisk, undefined, key);
      }),
    );
    if (csv === undefined || parquet === undefined) throw new Error("caches");
    t.true(csv.samples > 200 && csv.quarantine.count > 5);
    for (const other of [file, stream]) {
      if (other === undefined) throw new Error("a cache");
      t.is(other.digest, csv.digest);
      t.is(other.samples, csv.samples);
      t.deepEqual(other.means, csv.means);
      t.deepEqual(other.warnings, csv.warnings);
      t.deepEqual(other.statistics, csv.statistics);
      // As those of Parquet, whose row groups have as many rows as the record batches.
      const kept = parquet.quarantine.kept.map(({ file: _, rowGroup, ...rest }) => {
        return { ...rest, recordBatch: rowGroup };
      });
      t.deepEqual(
        other.quarantine.kept.map(({ file: _, ...rest }) => rest),
        kept,
      );
      if (key !== undefined) {
        t.deepEqual(readKeys(other.path, realDisk), readKeys(csv.path, realDisk));
      }
    }
  });
}

test("where keeps the same rows of Arrow as of Parquet", async (t) => {
  const where = [
    { column: "user", from: 10, until: 90 },
    { column: "when", from: "2026-11-01" },
  ];
  const [parquet, arrow] = await Promise.all(
    (["parquet", "arrow"] as const).map((ending) => {
      const data = clicksAs(ending, { where, cache: join(startDirectory(t), ending) });
      return prepareCache(data, clickTables, realDisk);
    }),
  );
  t.true((parquet?.samples ?? 0) > 50);
  t.is(arrow?.digest, parquet?.digest);
});

// The same rows as CSV and as Parquet are the same samples, byte for byte. pyarrow wrote the
// Parquet file, and Python the CSV file (test/fixtures/parquet/make.py).

import test from "ava";
import { readKeys } from "../../../src/data/cache/cache-keys.ts";
import { prepareCache } from "../../../src/data/cache/prepare-cache.ts";
import { realDisk } from "../../../src/ports/disk.ts";
import { startDirectory } from "../data-files.ts";
import { clickKeys, clicksAs, clickTables } from "./click-columns.ts";

test("labels that are numbers are the same, too", async (t) => {
  const cache = startDirectory(t);
  const numeric = { label: "ratio", numericLabels: ["ratio"], cache };
  const [one, other] = await Promise.all(
    (["csv", "parquet"] as const).map((ending) => {
      return prepareCache(clicksAs(ending, numeric), clickTables, realDisk);
    }),
  );
  t.is(other?.digest, one?.digest);
  t.deepEqual(other?.labelRanges, one?.labelRanges);
  t.true((one?.samples ?? 0) > 100);
});

for (const [name, key] of Object.entries(clickKeys)) {
  test(`CSV and Parquet have the same samples; key: ${name}`, async (t) => {
    const cache = startDirectory(t);
    const [one, other] = await Promise.all(
      (["csv", "parquet"] as const).map((ending) => {
        return prepareCache(clicksAs(ending, { cache }), clickTables, realDisk, undefined, key);
      }),
    );
    if (one === undefined || other === undefined) throw new Error("two caches");
    t.true(one.samples > 200 && one.quarantine.count > 5);
    t.is(other.digest, one.digest);
    t.is(other.samples, one.samples);
    t.deepEqual(other.means, one.means);
    t.deepEqual(other.warnings, one.warnings);
    t.deepEqual(other.statistics, one.statistics);
    const lines = one.quarantine.kept.map(({ line, reason }) => [line - 1, reason]);
    t.deepEqual(
      other.quarantine.kept.map(({ line, reason }) => [line, reason]),
      lines,
    );
    t.deepEqual(
      other.quarantine.kept.map(({ rowGroup }) => rowGroup),
      other.quarantine.kept.map(({ line }) => Math.floor((line - 1) / 150)),
    );
    if (key === undefined) return;
    t.deepEqual(readKeys(other.path, realDisk), readKeys(one.path, realDisk));
  });
}

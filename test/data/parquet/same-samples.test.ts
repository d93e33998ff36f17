// The same rows as CSV and as Parquet are the same samples, byte for byte. pyarrow wrote the
// Parquet file, and Python the CSV file (test/fixtures/parquet/make.py).

import { join } from "node:path";
import test from "ava";
import { readKeys } from "../../../src/data/cache/cache-keys.ts";
import { prepareCache } from "../../../src/data/cache/prepare-cache.ts";
import { dataOptions } from "../../../src/data/options.ts";
import type { KeyColumn } from "../../../src/data/split-keys.ts";
import { checkOptions } from "../../../src/ports/check-options.ts";
import { realDisk } from "../../../src/ports/disk.ts";
import { startDirectory } from "../data-files.ts";
import { fixtures } from "./parquet-files.ts";

/** The options that both have. */
const both = {
  batchSize: 32,
  rejectedMax: 0.5,
  labelAsFeature: true,
  label: ["label", "bought"],
  weight: "weight",
  group: "user",
  dense: [
    "age",
    { column: "price", log: true, missing: "mean" },
    { column: "ratio", missing: "indicator" },
    { column: "shop", missing: 0 },
  ],
};

const plain = [
  "item",
  "colour",
  { column: "shop", ids: "integer", offset: 100 },
  { column: "session", ids: "integer" },
  "digest",
  { column: "user", missing: "reject" },
  { column: "mixed", separator: "|" },
  { column: "bought", table: "again" }, // A label, too: true and false as texts.
];

const split = { separator: "|" };

const csv = {
  kind: "csv",
  paths: [join(fixtures, "clicks.csv")],
  ...both,
  categorical: [
    ...plain,
    { column: "tags", ...split },
    { column: "words", ...split },
    { column: "scored", weightSeparator: ":", ...split },
  ],
};

const parquet = {
  kind: "parquet",
  paths: [join(fixtures, "clicks.parquet")],
  ...both,
  categorical: [
    ...plain,
    { column: "tags", list: "plain" },
    { column: "words", list: "plain" },
    { column: "scored", list: "weighted" },
  ],
};

const names = ["item", "colour", "shop", "session", "digest", "user", "mixed", "again"];
const tables = [...names, "tags", "words", "scored"].map((name) => ({
  name,
  rows: name === "shop" ? 30 : 1000,
  ...(name === "session" ? { idBits: 64 as const } : {}),
}));

const keys: Readonly<Record<string, KeyColumn | undefined>> = {
  none: undefined,
  "a time": { kind: "time", column: "when" },
  "a number": { kind: "time", column: "user" },
  "the hash of an integer": { kind: "hash", column: "item", salt: 3 },
  "the hash of a text": { kind: "hash", column: "colour", salt: 4 },
};

test("labels that are numbers are the same, too", async (t) => {
  const cache = startDirectory(t);
  const numeric = { label: "ratio", numericLabels: ["ratio"], cache };
  const [one, other] = await Promise.all(
    [csv, parquet].map((options) => {
      return prepareCache(checkOptions(dataOptions, { ...options, ...numeric }), tables, realDisk);
    }),
  );
  t.is(other?.digest, one?.digest);
  t.deepEqual(other?.labelRanges, one?.labelRanges);
  t.true((one?.samples ?? 0) > 100);
});

for (const [name, key] of Object.entries(keys)) {
  test(`CSV and Parquet have the same samples; key: ${name}`, async (t) => {
    const cache = startDirectory(t);
    const [one, other] = await Promise.all(
      [csv, parquet].map((options) => {
        const data = checkOptions(dataOptions, { ...options, cache });
        return prepareCache(data, tables, realDisk, undefined, key);
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

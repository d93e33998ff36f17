// Counts of column values that share table rows, collected while a cache is written, for every kind
// of data; and warnings about values that predict the label.

import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { writeWarehouse } from "../../../index.ts";
import {
  labelTold,
  ofAllSamples,
  sharingOf,
  sharingWarnings,
} from "../../../src/data/columnar/value-watch.ts";
import { lookAtFiles } from "../../../src/data/file-samples.ts";
import { tableFilesOf } from "../../../src/data/files.ts";
import type { DataOptions, TableShape } from "../../../src/data/options.ts";
import { resolveJob } from "../../../src/job/job.ts";
import { prepare, startDirectory, writeText } from "../data-files.ts";

/** MurmurHash3 (x86, 32 bits) of ASCII text, in bigints: shares no code with src. */
function murmur3(text: string, seed: number): number {
  const bytes = Buffer.from(text, "ascii");
  const word = 0xffff_ffffn;
  const rotated = (x: bigint, bits: bigint) => ((x << bits) | (x >> (32n - bits))) & word;
  const mixed = (k: bigint) => (rotated((k * 0xcc9e_2d51n) & word, 15n) * 0x1b87_3593n) & word;
  let hash = BigInt(seed);
  const whole = bytes.length - (bytes.length % 4);
  for (let at = 0; at < whole; at += 4) {
    hash = (rotated(hash ^ mixed(BigInt(bytes.readUInt32LE(at))), 13n) * 5n + 0xe654_6b64n) & word;
  }
  let rest = 0n;
  for (let at = bytes.length - 1; at >= whole; at--) rest = (rest << 8n) | BigInt(bytes[at] ?? 0);
  hash ^= mixed(rest) ^ BigInt(bytes.length);
  hash = ((hash ^ (hash >> 16n)) * 0x85eb_ca6bn) & word;
  hash = ((hash ^ (hash >> 13n)) * 0xc2b2_ae35n) & word;
  return Number(hash ^ (hash >> 16n));
}

/** Values, rows and values that share a row, by definition. */
function sharing(values: readonly string[], seed: number, rows: number) {
  const found = new Map<number, number>();
  for (const value of new Set(values)) {
    const row = 1 + (murmur3(value, seed) % (rows - 1));
    found.set(row, (found.get(row) ?? 0) + 1);
  }
  const shared = [...found.values()].filter((count) => count > 1);
  return { taken: found.size, shared: shared.reduce((sum, count) => sum + count, 0) };
}

const devices = ["android", "ios", "desktop", "tablet", "tv", "watch", "car", "phone"];
const lines = Array.from({ length: 600 }, (_, i) => ({
  y: i % 3 === 0 ? 1 : 0,
  device: devices[i % 8] ?? "",
  tags: `t${i % 50}|t${(7 * i) % 40}`,
}));
const tables: readonly TableShape[] = [
  { name: "device", rows: 16 },
  { name: "tags", rows: 64 },
];

function csvOf(t: ExecutionContext): { readonly data: DataOptions; readonly path: string } {
  const directory = startDirectory(t);
  const rows = lines.map(({ y, device, tags }) => `${y},${device},${tags}`).join("\n");
  const path = writeText(directory, { name: "a.csv", text: `y,device,tags\n${rows}\nbad\n` });
  const categorical = ["device", { column: "tags", separator: "|" }];
  const options = { label: "y", categorical, batchSize: 8, cache: join(directory, "cache") };
  return { data: { kind: "csv", paths: [path], ...options }, path };
}

const expected = () => {
  const tags = lines.flatMap((line) => line.tags.split("|"));
  return [
    { column: "device", feature: 0, rows: 16, samples: 600, values: 8, ...sharing(devices, 0, 16) },
    { column: "tags", feature: 1, rows: 64, samples: 600, values: 50, ...sharing(tags, 1, 64) },
  ];
};

test("values that share a row by MurmurHash3 are counted, in CSV", async (t) => {
  const { data } = csvOf(t);
  const { values = [] } = await prepare({ ...data, rejectedMax: 0.5 } as DataOptions, tables);
  t.deepEqual(values, expected());
  t.true((values[0]?.shared ?? 0) > 0, "some values share a row");
  t.deepEqual((await prepare({ ...data, rejectedMax: 0.5 } as DataOptions, tables)).values, values);
});

test("shared rows are counted alike in Parquet, and in a dry run", async (t) => {
  const { data, path } = csvOf(t);
  const { model: _, data: resolved } = resolveJob({
    model: {
      kind: "dlrm",
      dense: 0,
      tables: tables.map(({ name, rows }) => ({ name, rows, dim: 4 })),
      top: [1],
    },
    data,
  });
  if (resolved.kind !== "csv") throw new TypeError("CSV");
  const look = await lookAtFiles(resolved, tables, 10_000);
  t.deepEqual(look.values, expected());

  const home = startDirectory(t);
  const good = writeText(home, { name: "b.csv", text: csvText() });
  await writeWarehouse([good], join(home, "table"));
  const paths = tableFilesOf([join(home, "table")]);
  const parquet = { ...data, kind: "parquet", paths } as DataOptions;
  const { values } = await prepare({ ...parquet, cache: join(home, "cache") }, tables);
  t.deepEqual(values, expected());
  t.true(path.endsWith("a.csv"));
});

const csvText = () =>
  `y,device,tags\n${lines.map(({ y, device, tags }) => `${y},${device},${tags}`).join("\n")}\n`;

test("integer ids that the table hashes are counted by their number", async (t) => {
  const directory = startDirectory(t);
  const rows = Array.from(
    { length: 200 },
    (_, i) => `${i % 2},${(i % 20) + 3}${i % 3 === 0 ? ".0" : ""}`,
  );
  const text = `y,user\n${rows.join("\n")}\n`;
  const data: DataOptions = {
    kind: "csv",
    paths: [writeText(directory, { name: "a.csv", text })],
    ...{ label: "y", batchSize: 8, cache: join(directory, "cache") },
    categorical: [{ column: "user", ids: "integer" }],
  };
  const hashed = await prepare(data, [{ name: "user", rows: 16, ids: "hash" }]);
  t.like(hashed.values?.[0], { column: "user", values: 20, samples: 200 });
  t.true((hashed.values?.[0]?.taken ?? 20) < 20, "of 20 values in 16 rows, some share");
  const plain = await prepare(data, [{ name: "user", rows: 32 }]);
  t.deepEqual(plain.values, [], "each id has its own row");
});

test("a copy of the label is found although both of its values hash to one row", async (t) => {
  const directory = startDirectory(t);
  // With 16 rows and seed 2, "0" and "1" share a row.
  t.is(murmur3("0", 2) % 15, murmur3("1", 2) % 15);
  const rows = Array.from({ length: 600 }, (_, i) => {
    const y = i % 3 === 0 ? 1 : 0;
    return `${y},u${i % 20},${i % 7},${y}`;
  });
  const text = `y,a,b,copy\n${rows.join("\n")}\n`;
  const data: DataOptions = {
    kind: "csv",
    paths: [writeText(directory, { name: "a.csv", text })],
    ...{ label: "y", batchSize: 8, cache: join(directory, "cache") },
    categorical: ["a", "b", "copy"],
  };
  const shapes = ["a", "b", "copy"].map((name) => ({ name, rows: 16 }));
  const { warnings = [] } = await prepare(data, shapes);
  t.deepEqual(
    warnings.map(({ code }) => code),
    ["FEATURE_PREDICTS_LABEL"],
  );
  t.regex(warnings[0]?.message ?? "", /`copy` predicts the label of the first 600 samples/);
});

test("a frequent value that comes with one label only is named", async (t) => {
  const directory = startDirectory(t);
  const rows = Array.from({ length: 2000 }, (_, i) => {
    const y = i % 4 === 0 ? 1 : 0;
    return `${y},u${i % 301},${y === 1 && i % 8 === 0 ? "bought" : "no"}`;
  });
  const text = `y,user,more\n${rows.join("\n")}\n`;
  const data: DataOptions = {
    kind: "csv",
    paths: [writeText(directory, { name: "a.csv", text })],
    ...{ label: "y", batchSize: 8, cache: join(directory, "cache") },
    categorical: ["user", "more"],
  };
  const { warnings = [] } = await prepare(data, [
    { name: "user", rows: 5000 },
    { name: "more", rows: 5000 },
  ]);
  t.deepEqual(warnings, [
    {
      code: "VALUE_PREDICTS_LABEL",
      message:
        "The value `bought` of the column `more` comes with the label 1 alone, 250 times of the " +
        "first 2,000 samples; if it was made from the label, take it out of `data.categorical`",
    },
  ]);
});

test("a value that is rare, or has one label by chance, is not named", (t) => {
  const all = [9000, 1000] as const;
  const value = (text: string, none: number, one: number) => ({
    value: text,
    labels: [none, one] as const,
  });
  t.is(labelTold([value("a", 100, 0), value("b", 8900, 1000)], all), undefined, "by chance: 3e-5");
  t.is(labelTold([value("a", 0, 40), value("b", 9000, 960)], all), undefined, "rare: 0.4 %");
  t.like(labelTold([value("a", 0, 150), value("b", 9000, 850)], all), { value: "a", label: 1 });
  t.like(labelTold([value("a", 0, 1000), value("b", 9000, 0)], all), { value: undefined });
});

test("many values are estimated as the count that uses as many rows on average", (t) => {
  const seen = { column: "user", feature: 0, rows: 1001, samples: 10_000 };
  const counted = { ...seen, values: 300, taken: 260, shared: 70 };
  t.is(ofAllSamples(counted, [{ distinctIds: 261 }]), counted, "one more id is a missing value");
  // 1,000 values in 1,000 rows use 1 - 1/e of them, and 1/e of the values have their own row.
  const whole = ofAllSamples(counted, [{ distinctIds: 632 }]);
  t.like(whole, { taken: 632, isEstimated: true });
  t.true(Math.abs(whole.values - 1000) <= 1 && Math.abs(whole.shared - 632) <= 1);
  t.is(sharingOf(whole), "about 1,000 values in 632 rows (about 632 values share a row)");
  t.deepEqual(sharingWarnings([{ ...counted, values: 1000 }]), [], "too many values for a warning");
  t.regex(
    sharingWarnings([counted, { ...counted, column: "item", shared: 0 }])[0]?.message ?? "",
    /of the column `user`, 300 values in 260 rows \(`rows: 131072` would do\)\. Give/,
  );
});

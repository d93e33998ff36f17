// Samples without a cache: decoded from the files again whenever they are held, equal to those of
// the cache, and verified against their index.

import { copyFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { parquetWriteBuffer } from "hyparquet-writer";
import { readPieces } from "../../../src/data/cache/cache-facts.ts";
import { holdAt, piecesAt } from "../../../src/data/cache/pieces.ts";
import { prepareCache } from "../../../src/data/cache/prepare-cache.ts";
import { contentsOf, haveSameSamples } from "../../../src/data/contents.ts";
import type { Dataset } from "../../../src/data/dataset.ts";
import { openSamples } from "../../../src/data/open-samples.ts";
import { dataOptions } from "../../../src/data/options.ts";
import { openParquet } from "../../../src/data/parquet/open-columns.ts";
import { parquet } from "../../../src/data/sources.ts";
import { piecesOf, splitDataset } from "../../../src/data/split.ts";
import type { KeyColumn } from "../../../src/data/split-keys.ts";
import { plannedReads } from "../../../src/data/tables/byte-ranges.ts";
import { InputUnusableError } from "../../../src/errors/errors.ts";
import { checkOptions } from "../../../src/ports/check-options.ts";
import { realDisk } from "../../../src/ports/disk.ts";
import { openFilesIn } from "../../helpers/processes/open-files.ts";
import { sameValues } from "../../helpers/same-values.ts";
import { readPlain, startDirectory } from "../data-files.ts";
import { fixtures } from "./parquet-files.ts";

const names = ["item", "session", "pairs", "tags", "scored"];
const tables = names.map((name) => ({
  name,
  rows: 1000,
  ...(name === "session" ? { idBits: 64 as const } : {}),
}));

function optionsOf(paths: readonly string[], cache: string, rest: object = {}) {
  const section = {
    ...{ kind: "parquet", paths, cache, batchSize: 32, rejectedMax: 0.5, ...rest },
    label: "label",
    weight: "weight",
    group: "user",
    dense: ["age", { column: "price", log: true, missing: "mean" }],
    transforms: [
      { op: "hashText", input: "colour", output: "colourId" },
      {
        op: "cartesian",
        inputs: ["colourId", { column: "tags", list: "plain" }],
        output: "pairs",
        max: 800,
      },
    ],
    categorical: [
      "item",
      { column: "session", ids: "integer" },
      { column: "pairs", ids: "integer" },
      { column: "tags", list: "plain" },
      { column: "scored", list: "weighted" },
    ],
  };
  const data = checkOptions(dataOptions, section);
  if (data.kind !== "parquet") throw new Error("Parquet");
  return data;
}

/** Prepares and opens the samples of the options; returns them with the report. */
async function open(options: ReturnType<typeof optionsOf>, key?: KeyColumn) {
  const report = await prepareCache(options, tables, realDisk, undefined, key);
  return { report, dataset: await openSamples(report.path, realDisk, { options, tables, key }) };
}

const placesFrom = (first: number, count: number) =>
  Array.from({ length: count }, (_, i) => first + i);

/** Reads every sample, held in batches of 50. */
async function readHeld(dataset: Dataset): Promise<unknown[]> {
  const found: unknown[] = [];
  for (let first = 0; first < dataset.samples; first += 50) {
    const count = Math.min(50, dataset.samples - first);
    await holdAt(dataset, first, count);
    found.push(...readPlain(dataset, placesFrom(first, count)));
  }
  return found;
}

function twoFiles(directory: string): string[] {
  return ["a.parquet", "b.parquet"].map((name) => {
    copyFileSync(join(fixtures, "clicks.parquet"), join(directory, name));
    return join(directory, name);
  });
}

const keys: readonly (KeyColumn | undefined)[] = [undefined, { kind: "time", column: "when" }];

for (const key of keys) {
  test(`samples without a cache equal those of the cache; key: ${key?.column}`, async (t) => {
    const home = startDirectory(t);
    const paths = twoFiles(home);
    const cached = await open(optionsOf(paths, home), key);
    const streamed = await open(optionsOf(paths, home, { streamed: true }), key);
    const [then, now] = [cached, streamed].map(({ report }) => contentsOf(report));
    t.true(then !== undefined && now !== undefined && haveSameSamples(then, now));
    t.not(then?.version, now?.version);
    t.deepEqual(streamed.report.statistics, cached.report.statistics);
    t.not(streamed.report.path, cached.report.path);
    const keyBytes = key === undefined ? 0 : 8 * cached.report.samples;
    const bytesOf = (path: string) => statSync(path).size - keyBytes;
    t.true(bytesOf(streamed.report.path) < bytesOf(cached.report.path) / 4);
    sameValues(t, await readHeld(streamed.dataset), readPlain(cached.dataset));
    // Ranges out of order that begin within row groups.
    const { samples, pieces } = streamed.dataset;
    t.true((pieces?.length ?? 0) > 4, `${pieces}`);
    await holdAt(streamed.dataset, samples - 40, 40);
    const last = placesFrom(samples - 40, 40);
    sameValues(t, readPlain(streamed.dataset, last), readPlain(cached.dataset, last));
    const part = { seed: 2, fraction: 0.3, part: "train" } as const;
    const view = splitDataset(streamed.dataset, part);
    t.deepEqual(view.pieces, piecesOf(part, samples, pieces ?? new Float64Array()));
    sameValues(t, await readHeld(view), readPlain(splitDataset(cached.dataset, part)));
    cached.dataset.close();
    streamed.dataset.close();
  });
}

test("`cache: none` streams with an index in the cache directory; text does not support it", (t) => {
  const { streamed, cache } = optionsOf(["a.parquet"], "none");
  t.deepEqual([streamed, cache], [true, ".osiris/cache"]);
  const error = t.throws(() =>
    checkOptions(dataOptions, { kind: "criteo-tsv", paths: ["a"], batchSize: 8, cache: "none" }),
  );
  t.regex(
    error?.message ?? "",
    /`cache` to be a directory: only Parquet, Arrow and generated samples do without a cache/,
  );
});

test("row groups are read once per epoch, and files are closed with the samples", async (t) => {
  const home = startDirectory(t);
  const paths = twoFiles(home);
  const options = optionsOf(paths, home, { streamed: true });
  const { dataset } = await open(options);
  let bytes = 0;
  for (const path of paths) {
    const file = await openParquet(path, options, tables);
    const leaves = file.wanted.flatMap(({ shape }) => [shape.leaf, shape.weights ?? []].flat());
    for (const { chunks } of file.footer.groups) {
      const reads = plannedReads(leaves.flatMap((leaf) => chunks.get(leaf.path) ?? []));
      bytes += reads.reduce((sum, { start, end }) => sum + end - start, 0);
    }
    await file.close();
  }
  const before = openFilesIn(home);
  for (const pass of [1, 2]) {
    await readHeld(dataset);
    t.is(dataset.bytesRead.file, pass * bytes, `pass ${pass}`);
  }
  if (process.platform === "linux") t.true(openFilesIn(home).length > before.length, "still open");
  dataset.close();
  for (let turn = 0; openFilesIn(home).length > before.length && turn < 1000; turn++) {
    await new Promise((resolve) => setImmediate(resolve));
  }
  t.deepEqual(openFilesIn(home), before);
});

test("a file that changed since its index was made is named, and not trained on", async (t) => {
  const home = startDirectory(t);
  const path = join(home, "few.parquet");
  const write = (ages: number[]) => {
    const label = ages.map((age) => age % 2);
    const columnData = [
      { name: "label", data: label, type: "INT32" as const },
      { name: "age", data: ages, type: "INT32" as const },
    ];
    const bytes = parquetWriteBuffer({ columnData, rowGroupSize: 64, codec: "UNCOMPRESSED" });
    writeFileSync(path, new Uint8Array(bytes));
  };
  const ages = placesFrom(100, 192);
  write(ages);
  const options = checkOptions(
    dataOptions,
    parquet(path, { label: "label", dense: ["age"], cache: home, streamed: true, batchSize: 8 }),
  );
  const { path: index } = await prepareCache(options, [], realDisk);
  const bytes = statSync(path).size;
  const dataset = await openSamples(index, realDisk, { options, tables: [] });
  write(ages.with(100, 301));
  t.is(statSync(path).size, bytes);
  await dataset.hold([{ first: 0, end: 64 }], []);
  const second = () => dataset.hold([{ first: 64, end: 128 }], []);
  const refusal = { instanceOf: InputUnusableError };
  const same = await t.throwsAsync(second, refusal);
  t.regex(same?.message ?? "", /few\.parquet has changed since its index was made: the samples of/);
  t.regex(same?.message ?? "", /of row group 1 are other ones; put the file back as it was/);
  write(placesFrom(100, 256));
  const longer = await t.throwsAsync(second, refusal);
  t.regex(longer?.message ?? "", /has changed since its index was made: it has \d+ bytes, and had/);
  write(ages);
  await t.notThrowsAsync(second);
  dataset.close();
});

test("positions map to the pieces to hold now, and the one to prefetch", (t) => {
  const pieces = Float64Array.of(0, 32, 96, 128);
  const at = (first: number, count: number) => piecesAt({ isStreamed: true, pieces }, first, count);
  t.deepEqual(at(0, 32), { now: [{ first: 0, end: 32 }], next: [{ first: 32, end: 96 }] });
  t.deepEqual(at(31, 2), {
    now: [
      { first: 0, end: 32 },
      { first: 32, end: 96 },
    ],
    next: [{ first: 96, end: 128 }],
  });
  t.deepEqual(at(127, 1), { now: [{ first: 96, end: 128 }], next: [] });
  t.is(piecesAt({ isStreamed: false, pieces }, 0, 1), undefined);
});

test("pieces begin at blocks; a piece of a part has a chosen sample", async (t) => {
  const home = startDirectory(t);
  const { report, dataset } = await open(optionsOf(twoFiles(home), home, { streamed: true }));
  const pieces = readPieces(report.path, realDisk);
  t.deepEqual(pieces?.starts, dataset.pieces);
  t.true((pieces?.starts.length ?? 0) > 1);
  t.true(pieces?.starts.subarray(0, -1).every((start) => start % 32 === 0));
  t.true((pieces?.bytesMax ?? 0) > 1000);
  const few = piecesOf(
    { seed: 1, by: "place", from: 40, to: 41 },
    100,
    Float64Array.of(0, 32, 64, 100),
  );
  t.deepEqual(few, Float64Array.of(0, 1));
  dataset.close();
});

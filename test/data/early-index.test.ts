// The early index, made from the footers of Parquet files before their rows are read: it equals the
// index made from the rows. Data get none if a row may be bad, or if their order depends on more
// than the numbers of rows.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { type ColumnSource, parquetWriteBuffer } from "hyparquet-writer";
import { allSteps, ReadySteps } from "../../actors/threads/data/ready-steps.ts";
import { readCacheMeta, readPieces } from "../../src/data/cache/cache-facts.ts";
import { prepareCache } from "../../src/data/cache/prepare-cache.ts";
import { orderOfHost } from "../../src/data/file-index/claims.ts";
import { checkEarly, earlyIndexOf } from "../../src/data/file-index/early-index.ts";
import { indexedData } from "../../src/data/file-index/index-file.ts";
import { dataOptions } from "../../src/data/options.ts";
import { factsOfAll } from "../../src/data/remote/file-facts.ts";
import { EpochOrder } from "../../src/data/sample-order.ts";
import { InputUnusableError } from "../../src/errors/errors.ts";
import { checkOptions } from "../../src/ports/check-options.ts";
import { realDisk } from "../../src/ports/disk.ts";
import { scheduleOf } from "../../src/training/loop/schedule.ts";
import { startDirectory } from "./data-files.ts";

const tables = ["user", "item"].map((name) => ({ name, rows: 500 }));
type Columns = Readonly<Record<string, ColumnSource["data"]>>;

/** The early index of files, and the index of their rows. `changed`: columns of the last file. */
async function bothOf(t: ExecutionContext, changed: Columns = {}, rest: object = {}) {
  const home = startDirectory(t);
  const rows = [200, 33, 150];
  const paths = rows.map((count, file) => {
    const at = Array.from({ length: count }, (_, row) => row);
    const columns: Record<string, ColumnSource["data"]> = {
      label: at.map((row) => (row + file) % 2),
      price: at.map((row) => (row % 7 === 0 ? null : row / 3)),
      user: at.map((row) => (row % 5 === 0 ? null : `u${row % 40}`)),
      item: at.map((row) => (row % 9 === 0 ? null : (row * 3) % 500)),
      ...(file === rows.length - 1 ? changed : {}),
    };
    const types: Record<string, string> = {
      ...{ label: "INT32", price: "DOUBLE", user: "STRING", item: "INT32" },
    };
    const columnData = Object.entries(columns).map(([name, data]) => {
      return { name, data, type: types[name] } as ColumnSource;
    });
    const path = join(home, `f${file}.parquet`);
    writeFileSync(path, new Uint8Array(parquetWriteBuffer({ columnData, rowGroupSize: 70 })));
    return path;
  });
  const section = {
    ...{ kind: "parquet", paths, cache: home, batchSize: 32, streamed: true, rejectedMax: 0.5 },
    ...{ label: "label", dense: ["price"] },
    ...{ categorical: ["user", { column: "item", ids: "integer" }], ...rest },
  };
  const options = checkOptions(dataOptions, section);
  if (options.kind !== "parquet") throw new Error("Parquet");
  const data = indexedData({ options, tables, disk: realDisk });
  const early = await earlyIndexOf(data, await factsOfAll(paths));
  return { early, rows, whole: () => prepareCache(options, tables, realDisk) };
}

test("the samples and splits that footers prove equal those of the rows", async (t) => {
  const { early, rows, whole } = await bothOf(t);
  if (early === undefined) return t.fail("nothing is proven");
  const report = await whole();
  t.deepEqual(early.meta.files?.samples, rows);
  for (const name of ["names", "samples", "blocks"] as const) {
    t.deepEqual(early.meta.files?.[name], report.files?.[name]);
  }
  const [proven, reported] = [readPieces(early.path, realDisk), readPieces(report.path, realDisk)];
  t.deepEqual(proven?.starts, reported?.starts);
  t.true((proven?.bytesMax ?? 0) >= (reported?.bytesMax ?? Infinity));
  t.deepEqual(early.meta.idsMax, report.idsMax);
  const means = report.statistics?.map(({ idsMean }) => idsMean);
  t.deepEqual(early.idsMean, means);
  t.notThrows(() => checkEarly(early.meta, readCacheMeta(report.path, realDisk)));
});

const doubts: Record<string, readonly [Columns, object?]> = {
  "a label is neither 0 nor 1": [{ label: Array.from({ length: 150 }, (_, i) => i % 3) }],
  "a label is missing": [{ label: Array.from({ length: 150 }, (_, i) => (i === 9 ? null : 1)) }],
  "a number is infinite": [{ price: Array.from({ length: 150 }, (_, i) => 1 / (i % 9)) }],
  "an id lies beyond its rows": [{ item: Array.from({ length: 150 }, (_, i) => 4 * i) }],
  "a missing value is rejected": [{}, { dense: [{ column: "price", missing: "reject" }] }],
  "a mean of all rows is filled in": [{}, { dense: [{ column: "price", missing: "mean" }] }],
  "rows are chosen": [{}, { where: [{ column: "item", until: 300 }] }],
  "damage is left out": [{}, { damagedMax: 1 }],
};
for (const [why, [changed, rest]] of Object.entries(doubts)) {
  test(`footers prove no samples where ${why}`, async (t) => {
    t.is((await bothOf(t, changed, rest)).early, undefined);
  });
}

test("if a footer was wrong about its file, the error names the file", async (t) => {
  const { early, whole } = await bothOf(t);
  if (early === undefined) return t.fail("nothing is proven");
  const { files, ...meta } = await whole();
  const fewer = { ...meta, files: files && { ...files, samples: [200, 32, 150] } };
  const error = t.throws(() => checkEarly(early.meta, fewer), { instanceOf: InputUnusableError });
  t.regex(error?.message ?? "", /f1\.parquet promises 33 good rows, but it has 32/);
});

test("a step can be trained once the files that it reads are indexed, in their order", (t) => {
  const samples = [64, 64, 64, 64];
  const schedule = scheduleOf({ samples: 256, batchSize: 32, passes: 2, begin: 5 });
  const starts = Float64Array.of(0, 64, 128, 192, 256);
  const split = { slices: 2, splits: { starts, lanes: 2 } };
  const order = new EpochOrder({ seed: 3, shuffle: true, split }, schedule);
  const ready = new ReadySteps(schedule, order, starts, samples);
  const files = ready.filesInOrder();
  t.deepEqual(files.toSorted(), [0, 1, 2, 3]);
  const there = new Set<number>();
  const upTo = () => ready.upTo((file) => there.has(file));
  t.is(upTo(), 5);
  for (const file of ready.filesOf(5)) there.add(file);
  t.deepEqual([...there], files.slice(0, 2));
  t.is(upTo(), 9, "two files have four batches");
  for (const file of files) there.add(file);
  t.is(upTo(), allSteps);

  const inOrder = new EpochOrder({ seed: 3, shuffle: false }, schedule);
  const ofFiles = new ReadySteps(schedule, inOrder, starts, samples);
  t.deepEqual(ofFiles.filesInOrder(), [0, 1, 2, 3]);
  t.is(
    ofFiles.upTo((file) => file < 3),
    5 + 6,
  );
});

test("hosts share the files to index, and take over files of a host that may have failed", (t) => {
  const orders = [0, 1, 2].map((host) => [...orderOfHost(8, host, 3)]);
  t.deepEqual(orders[0], [0, 3, 6, 7, 4, 1, 5, 2]);
  t.deepEqual(orders[2], [2, 5, 6, 3, 0, 7, 4, 1]);
  for (const order of orders) t.deepEqual(order.toSorted(), [0, 1, 2, 3, 4, 5, 6, 7]);
});

// Inspection of a table by its footers. The estimated reads of a job equal the reads of the job's
// reader.

import { copyFileSync, mkdirSync, statSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { writeParquet } from "../../../../bench/ingest/ingest-files.ts";
import { openParquet } from "../../../../src/data/parquet/open-columns.ts";
import { plannedReads, spanBytesMax } from "../../../../src/data/tables/byte-ranges.ts";
import { newReport, wantedRows } from "../../../../src/data/tables/table-file.ts";
import { InputUnusableError, InvalidOptionError } from "../../../../src/errors/errors.ts";
import { type JobSpec, resolveJob } from "../../../../src/job/job.ts";
import { shapesOf } from "../../../../src/model/features.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { fixtures } from "../../../../test/data/parquet/parquet-files.ts";
import { inspectWarehouse } from "../../warehouse/inspect-warehouse.ts";

const rows = 180_000;
const [dense, ids] = [["price", "age"], ["user"]];

/** Writes two partitions of 60,000 and 120,000 rows; `user` of the second one fills a read. */
function startTable(home: string): string[] {
  return [1, 2].map((day) => {
    const own = day * 60_000;
    const numbers = (of: (row: number) => unknown) => Array.from({ length: own }, (_, i) => of(i));
    mkdirSync(join(home, `day=${day}`));
    const path = join(home, `day=${day}`, "part-0.parquet");
    writeParquet(
      path,
      [
        { name: "label", type: "INT32", data: numbers((row) => row % 2) },
        { name: "unused", type: "INT64", data: numbers((row) => BigInt(row * 31)) },
        { name: "price", type: "FLOAT", data: numbers((row) => (row * 7919) % 10_007) },
        { name: "user", type: "INT64", data: numbers((row) => BigInt(row * 2_654_435_761)) },
        { name: "age", type: "FLOAT", data: numbers((row) => row % 90) },
      ],
      own,
    );
    return path;
  });
}

function jobOf(data: object): JobSpec {
  const model = { kind: "dlrm", table: { rows: 99, dim: 4 }, bottom: [4], top: [4, 1] };
  return resolveJob({
    model,
    data: { kind: "parquet", paths: ["none"], batchSize: 8, label: "label", ...data },
  } as Parameters<typeof resolveJob>[0]);
}

const job = jobOf({ dense, categorical: ids });

test("inspection lists partitions, row groups and columns with their bytes", async (t) => {
  const home = startDirectory(t);
  const paths = startTable(home);
  const report = await inspectWarehouse([home]);
  t.is(report.files, 2);
  t.is(report.rows, rows);
  t.is(report.rowGroups, 2);
  t.deepEqual(report.groupRows, [60_000, 120_000]);
  t.deepEqual(
    report.partitions.map(({ name, rows: own }) => [name, own]),
    [
      ["day=1", 60_000],
      ["day=2", 120_000],
    ],
  );
  t.is(
    report.bytes,
    paths.reduce((sum, path) => sum + statSync(path).size, 0),
  );
  const [label, , , user] = report.columns;
  t.is(label?.type, "INT32");
  t.is(user?.values, rows);
  t.deepEqual(user?.codecs, ["SNAPPY"]);
  t.deepEqual(user?.encodings, ["PLAIN"]);
  t.true((user?.rawBytes ?? 0) >= 8 * rows);
  t.is(user?.isRead, undefined);
  t.true((label?.bytes ?? 0) < (label?.rawBytes ?? 0) + 100);
});

test("inspection shows the types of lists, maps and structs, with all of their leaves", async (t) => {
  const report = await inspectWarehouse([join(fixtures, "lists", "plain.parquet")]);
  const types = report.columns.map(({ type }) => type);
  t.true(types.includes("list<INT64>"), types.join());
  t.true(
    types.some((type) => type.startsWith("map<") || type.startsWith("list<struct<")),
    types.join(),
  );
  const bytes = report.columns.reduce((sum, column) => sum + column.bytes, 0);
  t.true(bytes > 0.2 * report.bytes && bytes < report.bytes);
});

test("the reads estimated for a job equal those of its reader", async (t) => {
  const home = startDirectory(t);
  const paths = startTable(home);
  const { job: plan, columns } = await inspectWarehouse([home], { job });
  const counted = newReport();
  const data = job.data as Extract<JobSpec["data"], { kind: "parquet" }>;
  for (const path of paths) {
    const opened = await openParquet(path, data, shapesOf(job.model));
    for await (const _ of wantedRows(opened, { report: counted }));
    await opened.file.close();
  }
  const { wanted, read, reads } = counted;
  t.deepEqual([plan?.wanted, plan?.read, plan?.reads], [wanted, read, reads]);
  t.true(reads > 2 && read > wanted);
  t.deepEqual([plan?.files, plan?.rowGroups, plan?.columns], [2, 2, 4]);
  t.deepEqual(
    columns.filter(({ isRead }) => isRead !== true).map(({ name }) => name),
    ["unused"],
  );
});

test("a large range is read in windows, and small ones share a read", (t) => {
  const [large, near, far] = [2.5 * spanBytesMax, 10, 3 * spanBytesMax];
  const ranges = [
    { start: large + near, end: large + 2 * near },
    { start: 0, end: large },
    { start: large + 4 * near, end: large + 5 * near },
    { start: large + far, end: large + far + near },
  ];
  t.deepEqual(plannedReads(ranges), [
    { start: 0, end: spanBytesMax },
    { start: spanBytesMax, end: 2 * spanBytesMax },
    { start: 2 * spanBytesMax, end: large },
    { start: large + near, end: large + 5 * near },
    { start: large + far, end: large + far + near },
  ]);
});

test("partitions that a job leaves out are not read", async (t) => {
  const home = startDirectory(t);
  startTable(home);
  const where = [{ column: "day", equals: "2" }];
  const one = await inspectWarehouse([home], { job: jobOf({ dense, categorical: ids, where }) });
  t.is(one.files, 2);
  t.deepEqual([one.job?.files, one.job?.rowGroups], [1, 1]);
});

test("a missing or foreign file, a job without files and a missing column are errors", async (t) => {
  const home = startDirectory(t);
  startTable(home);
  copyFileSync(join(fixtures, "clicks.csv"), join(home, "clicks.csv"));
  await t.throwsAsync(inspectWarehouse([join(home, "none.parquet")]), {
    instanceOf: InputUnusableError,
    message: /none\.parquet/,
  });
  await t.throwsAsync(inspectWarehouse([home]), {
    instanceOf: InputUnusableError,
    message: /clicks\.csv: it does not end in PAR1/,
  });
  const tables = [join(home, "day=*")];
  await t.throwsAsync(inspectWarehouse(tables, { job: jobOf({ dense, categorical: ["usr"] }) }), {
    instanceOf: InvalidOptionError,
    message: /`usr`/,
  });
  const { model } = job;
  const text = resolveJob({
    model: model as never,
    data: { kind: "csv", paths: ["x"], batchSize: 8, label: "label", dense, categorical: ids },
  });
  await t.throwsAsync(inspectWarehouse(tables, { job: text }), {
    instanceOf: InvalidOptionError,
    message: /Expected `data\.kind` to be parquet, as the files of a warehouse are, got `csv`/,
  });
});

// The session order: sessions are shuffled, each complete and in its own order; data with scattered
// sessions are refused. Features of an aligned group need lists of equal length: other data are
// refused, and the error names file, row group, sample and features.

import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { prepareData } from "../../../actors/threads/data/prepare-data.ts";
import { writeWarehouse } from "../../../packages/ingest/warehouse/write-warehouse.ts";
import { placeOfSample } from "../../../src/data/cache/cache-facts.ts";
import { cutOf, EpochOrder } from "../../../src/data/sample-order.ts";
import { InputUnusableError, InvalidOptionError } from "../../../src/errors/errors.ts";
import { type JobOptions, resolveJob } from "../../../src/job/job.ts";
import { realDisk } from "../../../src/ports/disk.ts";
import { startDirectory } from "../data-files.ts";

const batchSize = 16;
const slices = 4;

/** A job on lines of (session, label, item). */
function startJob(t: { teardown(fn: () => void): void }, sessions: readonly string[], more = {}) {
  const directory = startDirectory(t);
  const path = join(directory, "clicks.csv");
  const lines = sessions.map((session, i) => `${session},${i % 2},${i}`);
  writeFileSync(path, ["visit,label,item", ...lines, ""].join("\n"));
  const data = { kind: "csv", paths: [path], label: "label", categorical: [{ column: "item" }] };
  const tables = [{ name: "item", rows: 100, dim: 4 }];
  return resolveJob({
    model: { kind: "dlrm", tables, top: [1] },
    data: { ...data, group: "visit", order: "sessions", batchSize, cache: directory, ...more },
    slices,
  });
}

/** Sessions of 1 to 7 lines, each contiguous. */
const clustered = Array.from({ length: 60 }, (_, session) =>
  new Array<string>(1 + (session % 7)).fill(`s${session}`),
).flat();

test("an epoch keeps each session complete and in order, and shuffles sessions anew", async (t) => {
  const job = startJob(t, clustered);
  const { contents } = await prepareData(job, realDisk, () => {});
  const split = cutOf(contents, slices);
  t.deepEqual(split?.splits?.starts.length, 61);
  const samples = clustered.length;
  const order = new EpochOrder({ seed: 1, shuffle: true, split }, { samples, batchSize });
  const seen = [0, 1].map((epoch) => {
    const indices = new Float64Array(samples);
    order.fill(indices, epoch, 0);
    t.deepEqual(
      [...indices].sort((a, b) => a - b),
      [...clustered.keys()],
    );
    // A session may be split at the boundary of two slices: its rest is the start of the second.
    const breaks = [...indices].filter((sample, i) => {
      const isFirst = clustered[sample] !== clustered[sample - 1];
      return !isFirst && indices[i - 1] !== sample - 1;
    });
    const borders = slices * Math.ceil(samples / batchSize);
    t.true(breaks.length <= borders, `${breaks.length} breaks`);
    return indices.join();
  });
  t.not(seen[0], seen[1]);
});

test("samples of a session in two places are refused by file, sample and column", async (t) => {
  const job = startJob(t, [...clustered, "s3"]);
  const error = await t.throwsAsync(
    prepareData(job, realDisk, () => {}),
    {
      instanceOf: InputUnusableError,
    },
  );
  const [path] = "paths" in job.data ? job.data.paths : [];
  const where = `sample ${clustered.length + 1} of ${path} has a \`visit\``;
  t.true(error.message.includes(where), error.message);
  t.true(error.message.includes("osiris cluster-sessions"));
});

test("the session order requires a session column", (t) => {
  const error = t.throws(() => startJob(t, clustered, { group: undefined }), {
    instanceOf: InvalidOptionError,
  });
  t.regex(error.message, /`data\.order` to be another order, or `data\.group` beside it/);
});

test("a session column that the file lacks is refused, with the columns that it has", async (t) => {
  const job = startJob(t, clustered, { group: "session" });
  const error = await t.throwsAsync(prepareData(job, realDisk, () => {}));
  t.regex(error.message, /session.*visit/);
});

const rows = 90;
const wrongRow = 70;

/** A job on Parquet files of ids and their times, one row of which lacks a time. */
async function startListsJob(
  t: { teardown(fn: () => void): void },
  { isWrong = true, ikjt }: { isWrong?: boolean; ikjt: unknown },
) {
  const directory = startDirectory(t);
  const lines = Array.from({ length: rows }, (_, row) => {
    const ids = Array.from({ length: row % 5 }, (_, i) => row + i);
    const times = isWrong && row === wrongRow + 1 ? [] : ids.map((id) => id + 1);
    return JSON.stringify({ label: row % 2, hist: ids, times, item: row });
  });
  const source = join(directory, "rows.jsonl");
  writeFileSync(source, `${lines.join("\n")}\n`);
  const table = join(directory, "table");
  await writeWarehouse([source], table, { groupRows: 40 });
  const files = readdirSync(table).map((name) => join(table, name));
  const names = ["hist", "times", "item"];
  const list = (column: string) => ({ column, ids: "integer", list: "plain" });
  return resolveJob({
    model: { kind: "dlrm", tables: names.map((name) => ({ name, rows: 200, dim: 4 })), top: [1] },
    data: {
      ...{ kind: "parquet", paths: files, label: "label", batchSize: 16 },
      ...{ cache: directory, ikjt },
      categorical: [list("hist"), list("times"), { column: "item", ids: "integer" }],
    },
  } as JobOptions);
}

test("aligned lists that differ in length are refused by file, sample and names", async (t) => {
  const job = await startListsJob(t, { ikjt: { groups: [["hist", "times"]], aligned: true } });
  const error = await t.throwsAsync(
    prepareData(job, realDisk, () => {}),
    { instanceOf: InputUnusableError },
  );
  const place = `sample ${wrongRow + 2 - 40} of row group 1 of `;
  t.true(error.message.includes(place), error.message);
  t.regex(error.message, /`data\.ikjt\.groups\[0\]` .*\.parquet has 1 of `hist` and 0 of `times`/);
});

test("lists of equal lengths, and groups that are not aligned, are accepted", async (t) => {
  const groups = [["hist", "times"]];
  const aligned = await startListsJob(t, { isWrong: false, ikjt: { groups, aligned: true } });
  await t.notThrowsAsync(prepareData(aligned, realDisk, () => {}));
  const free = await startListsJob(t, { ikjt: { groups } });
  await t.notThrowsAsync(prepareData(free, realDisk, () => {}));
});

test("automatic groups cannot be declared aligned", async (t) => {
  const error = await t.throwsAsync(startListsJob(t, { ikjt: { groups: "auto", aligned: true } }), {
    instanceOf: InvalidOptionError,
  });
  t.regex(error.message, /data\.ikjt.*groups of names/s);
});

test("a sample is located by its file and, where there are some, its row group", (t) => {
  const sources = [3, 0, 5].map((samples, i) => ({
    ...{ path: `/data/${i}.x`, bytes: 1, modifiedMs: 0 },
    samples,
  }));
  const pieces = [
    { file: 0, rowGroup: 0, samples: 2 },
    { file: 0, rowGroup: 3, samples: 1 },
    { file: 2, rowGroup: 0, samples: 5 },
  ];
  t.is(placeOfSample({ sources }, 0), "sample 1 of /data/0.x");
  t.is(placeOfSample({ sources }, 3), "sample 1 of /data/2.x");
  t.is(placeOfSample({ sources, pieces }, 2), "sample 1 of row group 3 of /data/0.x");
  t.is(placeOfSample({ sources, pieces }, 7), "sample 5 of row group 0 of /data/2.x");
  t.is(placeOfSample({ sources }, 8), undefined);
});

// Aligned groups, whose lists must have equal lengths: other data are refused with file, row group,
// sample and names; and the position of a sample in its files.

import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "ava";
import { prepareData } from "../../../actors/threads/data/prepare-data.ts";
import { writeWarehouse } from "../../../packages/ingest/warehouse/write-warehouse.ts";
import { placeOfSample } from "../../../src/data/cache/cache-facts.ts";
import { InputUnusableError, InvalidOptionError } from "../../../src/errors/errors.ts";
import { type JobOptions, resolveJob } from "../../../src/job/job.ts";
import { realDisk } from "../../../src/ports/disk.ts";

const rows = 90;
const wrongRow = 70;

/** A job on Parquet files of ids and their times, one row of which lacks a time. */
async function startJob(
  t: { teardown(fn: () => void): void },
  { isWrong = true, ikjt }: { isWrong?: boolean; ikjt: unknown },
) {
  const directory = mkdtempSync(join(tmpdir(), "osiris-test-"));
  t.teardown(() => rmSync(directory, { recursive: true }));
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
  const job = await startJob(t, { ikjt: { groups: [["hist", "times"]], aligned: true } });
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
  const aligned = await startJob(t, { isWrong: false, ikjt: { groups, aligned: true } });
  await t.notThrowsAsync(prepareData(aligned, realDisk, () => {}));
  const free = await startJob(t, { ikjt: { groups } });
  await t.notThrowsAsync(prepareData(free, realDisk, () => {}));
});

test("automatic groups cannot be declared aligned", async (t) => {
  const error = await t.throwsAsync(startJob(t, { ikjt: { groups: "auto", aligned: true } }), {
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

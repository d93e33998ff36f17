// Compaction: the same rows in few files, no work the second time, and a complete table after the
// process dies at any point.

import { copyFileSync, cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { InputUnusableError } from "../../../../src/errors/errors.ts";
import { realDisk } from "../../../../src/ports/disk.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { fixtures } from "../../../../test/data/parquet/parquet-files.ts";
import { stride } from "../../../../test/helpers/thinned.ts";
import { compactWarehouse } from "../../warehouse/compact-warehouse.ts";
import { inspectWarehouse } from "../../warehouse/inspect-warehouse.ts";
import { writeWarehouse } from "../../warehouse/write-warehouse.ts";
import { allFiles, contentsOf, mortalDisk } from "./tables.ts";

const clicks = join(fixtures, "clicks.parquet");

/** Writes one partition per entry of `copies`, with that many copies of 400 rows. */
function startTable(home: string, copies: readonly number[]): string {
  const table = join(home, "table");
  for (const [day, count] of copies.entries()) {
    mkdirSync(join(table, `day=${day}`), { recursive: true });
    for (let i = 0; i < count; i++) {
      copyFileSync(clicks, join(table, `day=${day}`, `part-${i}.parquet`));
    }
  }
  return table;
}

test("compaction makes few files with large row groups, with the same rows in the same order", async (t) => {
  const table = startTable(startDirectory(t), [3, 1, 2]);
  const before = await contentsOf(table);
  const { partitions } = await compactWarehouse(table, { groupRows: 500, fileRows: 1000 });
  t.deepEqual(
    partitions.map(({ rows, filesBefore, filesAfter, rowGroupsBefore, rowGroupsAfter }) => {
      return [rows, filesBefore, filesAfter, rowGroupsBefore, rowGroupsAfter];
    }),
    [
      [1200, 3, 2, 9, 3],
      [400, 1, 1, 3, 1],
      [800, 2, 1, 6, 2],
    ],
  );
  t.deepEqual(await contentsOf(table), before);
  t.is(allFiles(table).length, 4);
  const { columns, rows } = await inspectWarehouse([table]);
  t.is(rows, 2400);
  t.is(columns.find(({ name }) => name === "when")?.type, "TIMESTAMP");
  t.deepEqual((await compactWarehouse(table, { groupRows: 500, fileRows: 1000 })).partitions, []);
});

test("rows stay, and in their order, in other row groups, in many files and before later ones", async (t) => {
  const home = startDirectory(t);
  const table = startTable(home, [3]);
  const before = await contentsOf(table);
  await compactWarehouse(table, { groupRows: 100 });
  await compactWarehouse(table, { groupRows: 1000 });
  t.deepEqual(await contentsOf(table), before);
  const text = join(home, "numbers.csv");
  writeFileSync(text, `n\n${Array.from({ length: 26 }, (_, i) => `${i}\n`).join("")}`);
  const ordered = join(home, "ordered");
  await writeWarehouse([text], ordered, { groupRows: 1 });
  const numbers = await contentsOf(ordered);
  await compactWarehouse(ordered, { fileRows: 2, groupRows: 4 });
  t.is(allFiles(ordered).length, 13);
  t.deepEqual(await contentsOf(ordered), numbers);
  writeFileSync(join(ordered, "part-1.parquet"), ""); // As an ingestion adds it.
  t.is(allFiles(ordered).at(-1), "part-1.parquet");
});

test("a compaction note that names files outside the table moves and removes none", async (t) => {
  const home = startDirectory(t);
  const table = startTable(home, [2]);
  const victim = join(home, "victim.txt");
  writeFileSync(victim, "kept");
  const note = join(table, "day=0", ".compaction.json");
  for (const told of [
    { made: [], removed: ["../../victim.txt"] },
    { made: [["part-0.parquet", "../../victim.txt"]], removed: [] },
    { made: [[victim, "a.parquet"]], removed: [] },
    { made: [], removed: [".."] },
  ]) {
    writeFileSync(note, JSON.stringify(told));
    await t.throwsAsync(compactWarehouse(table), {
      instanceOf: InputUnusableError,
      message: /this file is damaged; if the old files/,
    });
    t.is(readFileSync(victim, "utf8"), "kept");
  }
});

test("after a process dies at any point, the next compaction has every row once", async (t) => {
  const home = startDirectory(t);
  const original = startTable(home, [2]);
  const expected = await contentsOf(original);
  let died = true;
  const every = stride("changes that a compaction dies before", 6);
  for (let dies = 0; died; dies += every) {
    const table = join(home, `copy-${dies}`);
    cpSync(original, table, { recursive: true });
    died = await compactWarehouse(table, { disk: mortalDisk(dies) })
      .then(() => false)
      .catch(() => true);
    await compactWarehouse(table);
    t.deepEqual(await contentsOf(table), expected, `after ${dies} changes`);
    t.is(allFiles(table).length, 1, allFiles(table).join());
    if (!died) t.true(dies > 10);
    realDisk.remove(table);
  }
});

test("Ctrl-C, other columns and another process leave a table unchanged", async (t) => {
  const table = startTable(startDirectory(t), [2]);
  const before = allFiles(table);
  const controller = new AbortController();
  const onProgress = () => controller.abort(new Error("stopped"));
  await t.throwsAsync(compactWarehouse(table, { signal: controller.signal, onProgress }), {
    message: "stopped",
  });
  t.deepEqual(allFiles(table), before);
  const other = join(table, "day=0", ".compacted-00000000-1-2-0.0.temp");
  writeFileSync(other, "");
  await t.throwsAsync(compactWarehouse(table), {
    instanceOf: InputUnusableError,
    message: /another process may be compacting it; if none is, remove .*\.compacted-0/,
  });
  realDisk.remove(other);
  copyFileSync(join(fixtures, "lists/plain.parquet"), join(table, "day=0", "x.parquet"));
  await t.throwsAsync(compactWarehouse(table), {
    instanceOf: InputUnusableError,
    message: /Expected files with the same columns/,
  });
  t.is(allFiles(table).length, before.length + 1);
  await t.throwsAsync(compactWarehouse(join(table, "day=0", "x.parquet")), {
    instanceOf: InputUnusableError,
    message: /Expected the directory of a table to compact/,
  });
});

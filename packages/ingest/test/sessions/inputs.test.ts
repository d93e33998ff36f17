// Inputs of clustering: files of every kind, partitions, HTTP servers and object stores, with the
// same rows.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { startPlace, transports } from "../../../../test/data/remote/places.ts";
import { clusterSessions } from "../../sessions/cluster-sessions.ts";
import { writeWarehouse } from "../../warehouse/write-warehouse.ts";
import { contentsOf } from "../warehouse/tables.ts";
import { clustered, jsonLines, outOf, rowsIn, rowsOf } from "./clustered.ts";

const memory = 2 ** 16;

for (const transport of transports) {
  test.serial(`rows of a ${transport} address equal those of the same file on disk`, async (t) => {
    const place = await startPlace(t, transport);
    const home = startDirectory(t);
    const path = jsonLines(home, rowsOf(3000));
    await writeWarehouse([path], join(home, "table"), { groupRows: 700 });
    await clusterSessions([path], join(home, "expected"), { memory });
    const expected = await contentsOf(join(home, "expected"));
    const table = join(home, "table", "part-0.parquet");
    for (const [name, file] of [
      ["rows.jsonl", path],
      ["rows.parquet", table],
    ] as const) {
      const address = await place.put(name, readFileSync(file));
      const out = join(home, `out-${name}`);
      const report = await clusterSessions([address], out, { memory });
      t.deepEqual(await contentsOf(out), expected, name);
      t.is(report.bytesBefore, readFileSync(file).length);
    }
  });
}

test("a table of partitions is clustered over all of them, with their keys as columns", async (t) => {
  const home = startDirectory(t);
  const rows = rowsOf(900).map((row, place) => ({ ...row, day: Math.floor(place / 300) }));
  for (const day of [0, 1, 2]) {
    const directory = join(home, "in", `day=${day}`);
    mkdirSync(directory, { recursive: true });
    const own = rows.filter((row) => row.day === day).map(({ day: _, ...row }) => row);
    writeFileSync(
      join(directory, "a.jsonl"),
      own.map((row) => `${JSON.stringify(row)}\n`).join(""),
    );
  }
  await clusterSessions([join(home, "in")], outOf(home), { memory });
  t.deepEqual(
    await rowsIn(outOf(home)),
    clustered(rows).map((row) => ({ ...row })),
  );
});

test("a clustered table that is clustered again has the same bytes", async (t) => {
  const home = startDirectory(t);
  await clusterSessions([jsonLines(home, rowsOf(2000))], outOf(home), { memory });
  await clusterSessions([outOf(home)], join(home, "again"), { memory });
  const bytesOf = (directory: string) => readFileSync(join(directory, "part-00000.parquet"));
  t.true(bytesOf(join(home, "again")).equals(bytesOf(outOf(home))));
});

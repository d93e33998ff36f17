// Tables clustered by session: all rows are in the defined order with any memory limit, row groups
// have whole sessions, and the statistics of lists are right.

import { readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import test from "ava";
import { writeSessionLines } from "../../../../src/data/synthetic/generated-lines.ts";
import { type Disk, realDisk } from "../../../../src/ports/disk.ts";
import { startDirectory, writeText } from "../../../../test/data/data-files.ts";
import { fixtures } from "../../../../test/data/parquet/parquet-files.ts";
import { testAll, testIf } from "../../../../test/helpers/needs.ts";
import { fc } from "../../../../test/helpers/properties.ts";
import { rounds } from "../../../../test/helpers/thinned.ts";
import { clusterSessions } from "../../sessions/cluster-sessions.ts";
import { inspectWarehouse } from "../../warehouse/inspect-warehouse.ts";
import { openParquetTable } from "../../warehouse/parquet-table.ts";
import { writeWarehouse } from "../../warehouse/write-warehouse.ts";
import { allFiles } from "../warehouse/tables.ts";
import { clustered, jsonLines, outOf, rowsIn, rowsOf } from "./clustered.ts";

const memory = 2 ** 16;

test("a table has its rows in the order of sessions and times, stable, for any sessions", async (t) => {
  const text = fc.string({ unit: fc.constantFrom("a", "b", "\u0000", "é", "7"), maxLength: 3 });
  const session = fc.constantFrom(
    fc.integer({ min: -3, max: 3 }),
    text.map((one) => `s${one}`),
  );
  const table = session.chain((sessions) =>
    fc.array(
      fc.record({
        session: sessions,
        time: fc.constantFrom(-5, -1, 0, 1, 2, 1e12),
        ids: fc.array(fc.integer({ min: -(2 ** 40), max: 2 ** 40 }), { maxLength: 4 }),
        text: fc.option(fc.string({ maxLength: 9 }), { nil: undefined }),
        score: fc.option(fc.double({ noNaN: true, noDefaultInfinity: true }), { nil: undefined }),
      }),
      { minLength: 1, maxLength: 60 },
    ),
  );
  await fc.assert(
    fc.asyncProperty(table, async (drawn) => {
      const home = startDirectory(t);
      const rows = drawn.map((row, place) => ({ ...row, place }));
      const path = jsonLines(home, rows);
      await writeWarehouse([path], join(home, "plain"));
      await clusterSessions([path], outOf(home), { memory });
      const stored = (await rowsIn(join(home, "plain"))) as { place: number }[];
      const expected = clustered(rows).map(({ place }) => stored[place]);
      t.deepEqual(await rowsIn(outOf(home)), expected);
    }),
    { numRuns: rounds("tables that are clustered", 8, 60) },
  );
});

/** A disk that reports each file written, with its bytes. */
function watchedDisk(onClose: (name: string, bytes: number) => void): Disk {
  return {
    ...realDisk,
    open(path, mode) {
      const file = realDisk.open(path, mode);
      if (mode !== "write") return file;
      return {
        ...file,
        close() {
          onClose(basename(path), file.size());
          file.close();
        },
      };
    },
  };
}

test("rows beyond the memory are sorted in runs that fit it, and merged in several passes", async (t) => {
  const home = startDirectory(t);
  const count = rounds("rows beyond the memory", 8000, 20_000);
  const rows = rowsOf(count);
  const path = jsonLines(home, rows);
  const runs: number[] = [];
  const disk = watchedDisk((name, bytes) => {
    if (name.endsWith(".run")) runs.push(bytes);
  });
  const report = await clusterSessions([path], outOf(home), { memory, disk });
  t.is(report.rows, count);
  t.deepEqual(
    await rowsIn(outOf(home)),
    clustered(rows).map((row) => ({ ...row })),
  );
  const first = runs.filter((bytes) => bytes <= memory / 2);
  t.true(first.length > count / 1000, `${first.length} runs that memory holds`);
  t.true(runs.length - first.length > count / 1000, `${runs.length} runs, merged two by two`);
  t.true(report.rowBytes > 4 * memory);
});

test("the table is the same for any memory, byte for byte", async (t) => {
  const home = startDirectory(t);
  const path = jsonLines(home, rowsOf(2000));
  const tables: Buffer[] = [];
  for (const bytes of [2 ** 16, 2 ** 18, 2 ** 29]) {
    const out = join(home, `out-${bytes}`);
    await clusterSessions([path], out, { memory: bytes });
    tables.push(readFileSync(join(out, "part-00000.parquet")));
  }
  t.true(tables.every((bytes) => bytes.equals(tables[0] ?? Buffer.alloc(0))));
});

test("row groups and files end where sessions end, unless a session is longer than two", async (t) => {
  const home = startDirectory(t);
  const long = Array.from({ length: 70 }, (_, place) => ({ session: 9999, time: 0, place }));
  const rows = [...rowsOf(500), ...long.map((row) => ({ ...row, place: row.place + 500 }))];
  const path = jsonLines(home, rows);
  const options = { groupRows: 30, fileRows: 200 };
  const report = await clusterSessions([path], outOf(home), options);
  const files = allFiles(outOf(home));
  t.is(report.files, files.length);
  t.true(files.length === 3 && files[0] === "part-00000.parquet", files.join());
  const seen = new Set<unknown>();
  let [groups, cuts] = [0, 0];
  for (const name of files) {
    const source = await openParquetTable([join(outOf(home), name)]);
    for await (const { columns, rows: count } of source.chunks()) {
      const sessions = new Set((columns.get("session") ?? []).map(Number));
      const known = [...sessions].filter((session) => seen.has(session));
      if (known.length > 0) t.deepEqual(known, [9999]);
      cuts += known.length;
      t.true(count <= 60, `${count} rows`);
      groups++;
      for (const session of sessions) seen.add(session);
    }
    t.true(seen.has(9999) || cuts === 0);
  }
  t.is(groups, report.rowGroups);
  t.is(cuts, 1);
  t.is(seen.size, report.sessions);
});

test("Parquet columns keep their types, and timestamps order rows", async (t) => {
  const home = startDirectory(t);
  const from = join(fixtures, "clicks.parquet");
  const report = await clusterSessions([from], outOf(home), { by: "label", order: "when" });
  const typesOf = async (path: string) => {
    const { columns } = await inspectWarehouse([path]);
    return columns.map(({ name, type }) => [name, type]);
  };
  t.deepEqual(await typesOf(outOf(home)), await typesOf(from));
  t.is(report.rows, (await rowsIn(from)).length);
  const whens = (await rowsIn(outOf(home))).map(({ label, when }) => [label, when] as const);
  const sorted = whens.every(([label, when], i) => {
    const [before, at] = whens[i - 1] ?? [];
    return before !== label || Number(at) <= Number(when);
  });
  t.true(sorted);
  const byDigest = join(home, "digests");
  await clusterSessions([from], byDigest, { by: "bought", order: "digest" });
  const rows = await rowsIn(byDigest);
  const digests = rows.map(({ digest }) => (Number(digest) + 2 ** 64) % 2 ** 64);
  t.is(digests.filter((one, i) => one < (digests[i - 1] ?? 0)).length, 1); // Two sessions.
});

test("text is ordered by its bytes, and ISO dates in text by their instants", async (t) => {
  const home = startDirectory(t);
  const text = [
    "session,time,place",
    "b,2026-01-02T00:00:00.500Z,0",
    "a,2026-01-02T01:00:00+02:00,1",
    "b,2026-01-02T00:00:00.499Z,2",
    "a,2026-01-01,3",
  ];
  const path = writeText(home, { name: "rows.csv", text: text.join("\n") });
  await clusterSessions([path], outOf(home));
  t.deepEqual(
    (await rowsIn(outOf(home))).map(({ place }) => place),
    [3, 1, 2, 0],
  );
});

testIf(testAll)(
  "clustering counts how often lists repeat in sessions, and the cost of shuffling",
  async (t) => {
    const home = startDirectory(t);
    const path = join(home, "rows.jsonl");
    writeSessionLines({ samples: 4000, mean: 16, rows: 100_000 }, path);
    const report = await clusterSessions([path], outOf(home), { compare: true });
    t.is(report.rows, 4000);
    const mean = report.rows / report.sessions;
    t.true(mean > 13 && mean < 18, `${mean} rows a session`);
    const factorOf = (column: string) => {
      return report.lists.find((list) => list.column === column)?.dedupeFactor ?? 0;
    };
    const formula = 1 / (1 - 0.9 * (1 - 1 / mean));
    t.true(Math.abs(factorOf("user1") / formula - 1) < 0.1, `${factorOf("user1")}`);
    t.true(Math.abs(factorOf("user8") / mean - 1) < 1e-9);
    t.is(factorOf("item1"), 1);
    const ratio = (report.bytesShuffled ?? 0) / report.bytes;
    // With so few rows, a codec finds the lists of a session even when rows are shuffled.
    t.true(ratio > 1.2 && ratio < 6, `${ratio}`);
    t.deepEqual(readdirSync(home).sort(), ["out", "rows.jsonl"]);
  },
);

test("a session, and a single row, may be larger than the memory", async (t) => {
  const home = startDirectory(t);
  const long = Array.from({ length: 20_000 }, (_, i) => i % 977);
  const rows = Array.from({ length: 60 }, (_, place) => {
    const ids = place % 7 === 3 ? long : [place];
    return { session: place % 2, time: (place * 37) % 11, ids, place };
  });
  const report = await clusterSessions([jsonLines(home, rows)], outOf(home), { memory });
  t.true(report.rowBytes > 8 * memory && 4 * long.length > memory);
  t.deepEqual(
    await rowsIn(outOf(home)),
    clustered(rows).map((row) => ({ ...row })),
  );
});

test("a file without rows becomes a table without rows", async (t) => {
  const home = startDirectory(t);
  const path = writeText(home, { name: "rows.csv", text: "session,time\n" });
  const report = await clusterSessions([path], outOf(home));
  t.like(report, { rows: 0, sessions: 0, files: 1 });
  t.deepEqual(await rowsIn(outOf(home)), []);
});

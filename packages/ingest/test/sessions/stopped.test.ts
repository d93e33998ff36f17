// Clustering that is stopped or killed: the table is complete or absent, and the next call resumes
// from the sorted runs. Inputs and directories that clustering refuses.

import {
  cpSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import test from "ava";
import {
  InputUnusableError,
  InvalidOptionError,
  StoreFailedError,
} from "../../../../src/errors/errors.ts";
import { realDisk } from "../../../../src/ports/disk.ts";
import { startDirectory, writeText } from "../../../../test/data/data-files.ts";
import { fixtures } from "../../../../test/data/parquet/parquet-files.ts";
import { rounds, stride } from "../../../../test/helpers/thinned.ts";
import {
  clusteringHomeOf,
  clusterSessions,
  type SessionOptions,
} from "../../sessions/cluster-sessions.ts";
import { allFiles, mortalDisk } from "../warehouse/tables.ts";
import { clustered, jsonLines, outOf, rowsIn, rowsOf } from "./clustered.ts";

const memory = 2 ** 16;

const bytesOf = (directory: string) => {
  return allFiles(directory).map((name) => [name, readFileSync(join(directory, name), "hex")]);
};

test("killed before any disk change, the next call makes the same bytes", async (t) => {
  const home = startDirectory(t);
  const path = jsonLines(home, rowsOf(800));
  const options = { memory, groupRows: 150, fileRows: 300 };
  await clusterSessions([path], join(home, "expected"), options);
  const expected = bytesOf(join(home, "expected"));
  let deaths = 0;
  let resumed = 0;
  const every = stride("changes that clustering is killed before", 8);
  for (; ; deaths += every) {
    const out = outOf(home);
    const disk = mortalDisk(deaths);
    try {
      await clusterSessions([path], out, { ...options, disk });
      break;
    } catch (error) {
      t.is((error as Error).message, "the process died");
    }
    if (existsSync(out)) t.deepEqual(bytesOf(out), expected, "the table is complete");
    const report = await clusterSessions([path], out, options);
    if (report.rowsResumed > 0) resumed++;
    t.deepEqual(bytesOf(out), expected, `killed before change ${deaths}`);
    t.false(existsSync(clusteringHomeOf(out)));
    rmSync(out, { recursive: true });
  }
  t.true(deaths > 60, `${deaths} changes`);
  t.true(every * resumed > 0.5 * deaths, `${resumed} of ${deaths / every} resumed`);
});

test("killed again and again, clustering still ends, with the same bytes", async (t) => {
  const home = startDirectory(t);
  const path = jsonLines(home, rowsOf(rounds("rows of a killed clustering", 2000, 4000)));
  await clusterSessions([path], join(home, "expected"), { memory });
  let calls = 0;
  for (let lives = 8; calls < 1000; calls++, lives = 8 + ((calls * 7) % 23)) {
    try {
      await clusterSessions([path], outOf(home), { memory, disk: mortalDisk(lives) });
      break;
    } catch (error) {
      t.is((error as Error).message, "the process died");
    }
  }
  t.true(calls > 3 && calls < 1000, `${calls} deaths`);
  t.deepEqual(bytesOf(outOf(home)), bytesOf(join(home, "expected")));
});

test("Ctrl-C keeps sorted runs, and leaves no directory where there are none", async (t) => {
  const home = startDirectory(t);
  const rows = rowsOf(6000);
  const path = jsonLines(home, rows);
  for (const share of [0, 0.1, 0.5, 0.85]) {
    const controller = new AbortController();
    const onProgress = (done: number, total: number) => {
      if (done >= share * total) controller.abort();
    };
    const { signal } = controller;
    const stopped = clusterSessions([path], outOf(home), { memory, signal, onProgress });
    await t.throwsAsync(stopped, { any: true, name: "AbortError" });
    t.false(existsSync(outOf(home)));
  }
  t.true(existsSync(clusteringHomeOf(outOf(home))));
  const report = await clusterSessions([path], outOf(home), { memory });
  t.is(report.rowsResumed, 6000);
  t.deepEqual(
    await rowsIn(outOf(home)),
    clustered(rows).map((row) => ({ ...row })),
  );
  const controller = new AbortController();
  controller.abort();
  const signal = controller.signal;
  const early = clusterSessions([path], join(home, "early"), { memory, signal });
  await t.throwsAsync(early, { any: true, name: "AbortError" });
  t.false(readdirSync(home).some((name) => name.startsWith("early")));
});

/** Starts clustering and stops it when half of the work is done. */
async function stopHalfway(path: string, out: string, options: SessionOptions = {}) {
  const controller = new AbortController();
  const onProgress = (done: number, total: number) => {
    if (2 * done > total) controller.abort();
  };
  const { signal } = controller;
  await clusterSessions([path], out, { memory, signal, onProgress, ...options }).catch(() => {});
}

test("other contents, or other columns to sort by, begin anew", async (t) => {
  const home = startDirectory(t);
  const path = jsonLines(home, rowsOf(4000));
  await stopHalfway(path, outOf(home));
  const rows = rowsOf(3000, 5);
  jsonLines(home, rows);
  await stopHalfway(path, outOf(home), { order: "place" });
  const report = await clusterSessions([path], outOf(home), { memory });
  t.is(report.rowsResumed, 0);
  t.deepEqual(
    await rowsIn(outOf(home)),
    clustered(rows).map((row) => ({ ...row })),
  );
});

test("damaged sorted runs are reported, and no table is made of them", async (t) => {
  const home = startDirectory(t);
  const path = jsonLines(home, rowsOf(4000));
  const out = outOf(home);
  await stopHalfway(path, out);
  const state = JSON.parse(readFileSync(join(clusteringHomeOf(out), "state.json"), "utf8"));
  const run = join(clusteringHomeOf(out), state.byTime.at(-1).name);
  const kept = join(home, "copy");
  cpSync(clusteringHomeOf(out), kept, { recursive: true });
  truncateSync(run, state.byTime.at(-1).bytes - 5);
  await t.throwsAsync(clusterSessions([path], out, { memory }), {
    instanceOf: InputUnusableError,
    message: /\.run: it ends within a row; remove its/,
  });
  rmSync(clusteringHomeOf(out), { recursive: true });
  cpSync(kept, clusteringHomeOf(out), { recursive: true });
  const changed = readFileSync(run);
  changed[changed.length - 2] = (changed[changed.length - 2] ?? 0) ^ 1;
  writeFileSync(run, changed);
  await t.throwsAsync(clusterSessions([path], out, { memory }), {
    instanceOf: InputUnusableError,
    message: /the rows written differ from the rows read/,
  });
  t.false(existsSync(out));
  rmSync(clusteringHomeOf(out), { recursive: true });
  t.is((await clusterSessions([path], out, { memory })).rows, 4000);
});

test("two processes cannot cluster into one table", async (t) => {
  const home = startDirectory(t);
  const path = jsonLines(home, rowsOf(4000));
  await stopHalfway(path, outOf(home));
  const disk = { ...realDisk, writer: "another", isGone: () => false };
  await t.throwsAsync(clusterSessions([path], outOf(home), { disk }), {
    instanceOf: InputUnusableError,
    message: /another process may be clustering there; if none is, remove that directory/,
  });
  const report = await clusterSessions([path], outOf(home), {
    disk: { ...disk, isGone: () => true },
  });
  t.is(report.rowsResumed, 4000);
});

test("a full disk is reported as a disk error", async (t) => {
  const home = startDirectory(t);
  const path = jsonLines(home, rowsOf(300));
  const full = Object.assign(new Error("no space"), {
    code: "ENOSPC",
    errno: -28,
    syscall: "open",
  });
  const disk = {
    ...realDisk,
    open(file: string, mode: Parameters<typeof realDisk.open>[1]) {
      if (file.endsWith(".run") && mode === "write") throw full;
      return realDisk.open(file, mode);
    },
  };
  await t.throwsAsync(clusterSessions([path], outOf(home), { disk }), {
    instanceOf: StoreFailedError,
  });
});

const csv = "session,time,ids\n1,5,a\n2,6,b\n";
const refused: [string, string, SessionOptions, RegExp][] = [
  [
    "no such session column",
    csv,
    { by: "visit" },
    /`--by` to name a column of .*rows\.csv, and it has no `visit`; it has `session`, `time`, `ids`$/,
  ],
  ["no such time column", csv, { order: "when" }, /`--order` to name .* it has no `when`; it has/],
  ["one column for both", csv, { order: "session" }, /another column than `--by`, got session/],
  [
    "a text that is no time",
    csv,
    { order: "ids" },
    /`ids` to be a number or an ISO date, got a in line 2 of .*rows\.csv$/,
  ],
  [
    "a row without session",
    `${csv},7,c\n`,
    {},
    /a value of `session`, got none in line 4 of .*rows\.csv$/,
  ],
  [
    "a row without time",
    `${csv}3,,c\n`,
    {},
    /a value of `time`, got none in line 4 of .*rows\.csv$/,
  ],
  ["too little memory", csv, { memory: 1000 }, /`--memory` to be at least 65536 bytes, got 1000/],
];
for (const [what, text, options, message] of refused) {
  test(`${what} is refused, and no file is left`, async (t) => {
    const home = startDirectory(t);
    const path = writeText(home, { name: "rows.csv", text });
    const error = await t.throwsAsync(clusterSessions([path], outOf(home), options));
    t.true(error instanceof InvalidOptionError || error instanceof InputUnusableError);
    t.regex(error?.message ?? "", message);
    t.deepEqual(readdirSync(home), ["rows.csv"]);
  });
}

test("list sessions, list orders and Parquet rows without a session are refused", async (t) => {
  const home = startDirectory(t);
  const clicks = join(fixtures, "clicks.parquet");
  const attempt = async (options: SessionOptions, message: RegExp) => {
    await t.throwsAsync(clusterSessions([clicks], outOf(home), options), { message });
  };
  await attempt({ by: "tags", order: "when" }, /one value a row, and `tags` is list<\w+>/);
  await attempt({ by: "label", order: "tags" }, /`--order` .*one value a row, and `tags` is list/);
  await attempt(
    { by: "colour", order: "when" },
    /a value of `colour`, got none in row \d+ of .*clicks\.parquet$/,
  );
  t.deepEqual(readdirSync(home), []);
});

test("an existing table is not overwritten", async (t) => {
  const home = startDirectory(t);
  const path = writeText(home, { name: "rows.csv", text: csv });
  await clusterSessions([path], outOf(home));
  await t.throwsAsync(clusterSessions([path], `${outOf(home)}/`), {
    instanceOf: InvalidOptionError,
    message: /Expected a new directory for the table, but .*out exists; remove it, or name another/,
  });
});

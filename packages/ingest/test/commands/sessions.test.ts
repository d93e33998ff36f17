// From a shell: sessions are generated, and rows clustered by session.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { runCli, runOk } from "../../../../test/helpers/processes/cli.ts";
import { lastJson } from "../../../../test/helpers/processes/start-cli.ts";

test.serial("sessions are generated as JSON Lines, in the requested order", async (t) => {
  const directory = startDirectory(t);
  const sessionsOf = (name: string) => {
    const lines = readFileSync(join(directory, name), "utf8").trimEnd().split("\n");
    return lines.map((line) => (JSON.parse(line) as { session: number }).session);
  };
  const generate = ["generate", "--sessions", "4", "--samples", "300", "--json", "--out"];
  const timed = await runOk(t, [...generate, "timed.jsonl"], directory);
  t.like(lastJson(timed), { report: "generate", file: "timed.jsonl", samples: 300 });
  await runOk(t, [...generate, "whole.jsonl", "--order", "session"], directory);
  const runsOf = (sessions: readonly number[]) =>
    sessions.filter((session, i) => session !== sessions[i - 1]).length;
  const [byTime, bySession] = [sessionsOf("timed.jsonl"), sessionsOf("whole.jsonl")];
  t.is(runsOf(bySession), new Set(bySession).size);
  t.true(runsOf(byTime) > 2 * new Set(byTime).size);
  const wrong = await runCli(["generate", "--order", "time", "--out", "x.tsv"], directory);
  t.is(wrong.code, 2);
  t.is(wrong.stderr, "osiris: Expected `--sessions` beside `--order`, got none\n");
});

test.serial("rows are clustered by session, and a bad flag is one sentence", async (t) => {
  const directory = startDirectory(t);
  const generate = ["generate", "--sessions", "8", "--samples", "2000", "--out", "rows.jsonl"];
  t.is((await runCli(generate, directory)).code, 0);
  const args = ["cluster-sessions", "rows.jsonl", "table"];
  const { stdout } = await runOk(t, [...args, "--compare"], directory);
  t.regex(
    stdout,
    /^table: 1 file, 1 row group; 2,000 rows of \d+ sessions, \d\.\d\d rows a session$/m,
  );
  t.regex(stdout, /^Read 1\.\d+ MB, wrote \d+ kB \(zstd\): \d+\.\d\d times smaller$/m);
  t.regex(stdout, /^Shuffled, the same rows take \d+ kB: \d\.\d\d times as much$/m);
  t.regex(stdout, /^user1 +52,000 +[\d,]+ +\d\.\d\d$/m);
  t.false(existsSync(join(directory, "table.clustering")));
  const more = ["--by", "user8", "--order", "time", "--json"];
  const wrong = await runCli(["cluster-sessions", "rows.jsonl", "other", ...more], directory);
  t.is(wrong.code, 2);
  t.is(
    wrong.stderr,
    "osiris: Expected `--by` to name a column with one value a row, and `user8` is list<INT64>\n",
  );
  const small = ["--codec", "gzip", "--memory", "100kB", "--row-group", "100", "--json"];
  const again = await runCli(["cluster-sessions", "rows.jsonl", "small", ...small], directory);
  t.like(lastJson(again), { report: "cluster-sessions", rows: 2000, codec: "gzip", files: 1 });
});

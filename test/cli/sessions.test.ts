// From a shell: sessions are generated, and clustered.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { lastJson, runCli } from "../helpers/processes/cli.ts";
import { directoryOf } from "./jobs.ts";

test.serial("sessions are generated as JSON Lines, in the order that is asked for", async (t) => {
  const directory = directoryOf(t);
  const sessionsOf = (name: string) => {
    const lines = readFileSync(join(directory, name), "utf8").trimEnd().split("\n");
    return lines.map((line) => (JSON.parse(line) as { session: number }).session);
  };
  const generate = ["generate", "--sessions", "4", "--samples", "300", "--json", "--out"];
  const timed = await runCli([...generate, "timed.jsonl"], directory);
  t.is(timed.code, 0, timed.stderr);
  t.like(lastJson(timed), { report: "generate", file: "timed.jsonl", samples: 300 });
  const whole = await runCli([...generate, "whole.jsonl", "--order", "session"], directory);
  t.is(whole.code, 0, whole.stderr);
  const runsOf = (sessions: readonly number[]) =>
    sessions.filter((session, i) => session !== sessions[i - 1]).length;
  const [byTime, bySession] = [sessionsOf("timed.jsonl"), sessionsOf("whole.jsonl")];
  t.is(runsOf(bySession), new Set(bySession).size);
  t.true(runsOf(byTime) > 2 * new Set(byTime).size);
  const wrong = await runCli(["generate", "--order", "time", "--out", "x.tsv"], directory);
  t.is(wrong.code, 2);
  t.is(wrong.stderr, "osiris: Expected `--sessions` beside `--order`, got none\n");
});

test.serial("rows are clustered by session, and a mistake is one sentence", async (t) => {
  const directory = directoryOf(t);
  const generate = ["generate", "--sessions", "8", "--samples", "2000", "--out", "rows.jsonl"];
  t.is((await runCli(generate, directory)).code, 0);
  const args = ["cluster-sessions", "rows.jsonl", "table"];
  const { code, stdout, stderr } = await runCli([...args, "--compare"], directory);
  t.is(code, 0, stderr);
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

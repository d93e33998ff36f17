// From a shell: sessions are generated.

import { readFileSync } from "node:fs";
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

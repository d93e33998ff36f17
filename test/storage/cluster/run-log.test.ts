// The log of a run in a directory: lines of all processes, ordered by time and bounded in size.

import { appendFileSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { readRunLog } from "../../../index.ts";
import { RunLog } from "../../../storage/cluster/run-log.ts";
import { startDirectory } from "../../data/data-files.ts";

const lineAt = (second: number, run: string, message: string) =>
  JSON.stringify({ time: `2026-01-01T00:00:0${second}.000Z`, run, message });

const messagesOf = (page: { readonly lines: readonly Readonly<Record<string, unknown>>[] }) =>
  page.lines.map(({ message }) => message).join("");

test("lines of all processes come in the order of their times, page after page", (t) => {
  const directory = startDirectory(t);
  t.deepEqual(readRunLog(directory), { lines: [], next: "" });
  const [leader, host] = [new RunLog(directory, "leader"), new RunLog(directory, "host-1")];
  leader.append(lineAt(1, "r1", "a"));
  host.append(lineAt(2, "r1", "b"));
  leader.append(lineAt(3, "r1", "c"));
  leader.append(lineAt(4, "r2", "x"));
  // Lines of one process keep their order after its clock went back.
  host.append(lineAt(1, "r1", "d"));
  leader.append(lineAt(5, "r1", "e"));
  t.is(messagesOf(readRunLog(directory)), "abdcxe");
  const first = readRunLog(directory, { run: "r1", most: 3 });
  t.is(messagesOf(first), "abd");
  const second = readRunLog(directory, { run: "r1", after: first.next });
  t.is(messagesOf(second), "ce");
  t.is(messagesOf(readRunLog(directory, { after: second.next })), "");
  host.append(lineAt(0, "r1", "late"));
  t.is(messagesOf(readRunLog(directory, { after: second.next })), "late");
  const last = readRunLog(directory, { last: 2 });
  t.is(messagesOf(last), "xe");
  t.is(last.next, readRunLog(directory).next);
});

test("a restarted process continues its log after a torn line", (t) => {
  const directory = startDirectory(t);
  new RunLog(directory, "leader").append(lineAt(1, "r1", "a"));
  const [name = ""] = readdirSync(join(directory, "logs"));
  appendFileSync(join(directory, "logs", name), '{"time":"2026');
  const before = readRunLog(directory);
  t.is(messagesOf(before), "a");
  new RunLog(directory, "leader").append(lineAt(2, "r1", "b"));
  t.is(messagesOf(readRunLog(directory, { after: before.next })), "b");
});

test("a log is bounded, and a reader that fell behind continues at the oldest kept line", (t) => {
  const directory = startDirectory(t);
  const log = new RunLog(directory, "leader");
  const filler = "x".repeat(100_000);
  const append = (from: number, to: number) => {
    for (let i = from; i < to; i++) log.append(JSON.stringify({ i, filler }));
  };
  append(0, 10);
  const { next } = readRunLog(directory);
  append(10, 60);
  t.is(readdirSync(join(directory, "logs")).length, 4);
  const kept = readRunLog(directory, { after: next }).lines.map(({ i }) => i as number);
  t.is(kept.at(-1), 59);
  t.true((kept[0] ?? 0) > 10, "the oldest lines were removed");
  t.deepEqual(
    kept,
    Array.from(kept, (_, at) => (kept[0] ?? 0) + at),
  );
  append(60, 61);
  const page = readRunLog(directory, { after: readRunLog(directory, { most: 5 }).next });
  t.is(page.lines.at(-1)?.i, 60);
});

test("appending to a log whose directory is gone drops the line without an error", (t) => {
  const directory = startDirectory(t);
  const log = new RunLog(join(directory, "gone\0"), "leader");
  t.notThrows(() => log.append("{}"));
});

test("a page opens no log file that it does not need, however many runs share the directory", (t) => {
  const directory = startDirectory(t);
  const logs = join(directory, "logs");
  const first = ["r2", "r1", "r1"].map((run, at) => `{"time":"${at}","run":"${run}"}\n`).join("");
  mkdirSync(join(logs, `leader-${String(first.length).padStart(12, "0")}.jsonl`), {
    recursive: true,
  });
  writeFileSync(join(logs, "leader-000000000000.jsonl"), first);
  const page = (after: string) => readRunLog(directory, { run: "r1", after, most: 1 });
  const one = page("");
  t.deepEqual(one.lines, [{ time: "1", run: "r1" }]);
  const two = page(one.next);
  t.deepEqual(two.lines, [{ time: "2", run: "r1" }]);
  t.is(two.next, `leader:${first.length}`);
  t.deepEqual(page(two.next).lines, [], "the unreadable log file adds no line");
});

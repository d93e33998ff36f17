import test from "ava";
import type { Note } from "./notes.ts";
import { type Counts, countsOf, isEndOf, progressOf, summaryOf } from "./report.ts";

const notes: readonly Note[] = [
  { kind: "begun", file: "wire/a" },
  { kind: "begun", file: "wire/b" },
  { kind: "skipped", title: "a server is asked", reason: "There is no server." },
  { kind: "skipped", title: "a server is asked", reason: "There is no server." },
  { kind: "some", cases: "crash points: 5 of 23" },
  { kind: "ended", file: "wire/a", seconds: 2.5 },
];

test("result lines of AVA's report are counted, and no other line", (t) => {
  const counts: Counts = { passed: 0, failed: 0, skipped: 0 };
  const lines = [
    "  ✔ a › b (1.2s)",
    "  ✘ [fail]: a › c",
    "    ℹ ✔ told by a test",
    "  2 tests passed",
    "  - [skip] a › d",
  ];
  for (const line of lines) countsOf(line, counts);
  t.deepEqual(counts, { passed: 1, failed: 1, skipped: 1 });
});

test("progress shows ended files, tests, time, and running files", (t) => {
  t.is(
    progressOf(notes, { passed: 7, failed: 1, skipped: 1 }, 9, 75),
    "  … 1 of 9 files, 7 tests passed, 1 failed, 1 min 15 s; running wire/b",
  );
});

test("the summary lists skipped tests once, with their reason, and the counts last", (t) => {
  const lines = summaryOf(notes, { passed: 7, failed: 0, skipped: 1 }, [], 30).split("\n");
  t.deepEqual(lines.slice(1, 4), [
    "Skipped tests:",
    "  There is no server.",
    "    - a server is asked",
  ]);
  t.true(lines.includes("    - crash points: 5 of 23"));
  t.true(lines.includes("     2.5 s  wire/a"));
  t.is(lines.at(-1), "7 tests passed, 0 failed, 1 skipped, in 30 s");
  t.true(
    summaryOf([], { passed: 1, failed: 0, skipped: 1 }, [], 1).includes("No test was skipped."),
  );
});

test("failures come last in the summary, just before the counts", (t) => {
  t.true(isEndOf("  ─"));
  t.true(isEndOf("  ✘ Timed out while running tests"));
  t.false(isEndOf("  ✔ a ─ b"));
  const told = ["  ─", "", "  a › c", "  Difference:"];
  const lines = summaryOf(notes, { passed: 7, failed: 1, skipped: 1 }, told, 30).split("\n");
  t.deepEqual(lines.slice(-6, -2), told);
});

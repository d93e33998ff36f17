// The lines that `npm test` adds to AVA's report: progress, skipped tests, the slowest files and
// the counts.

import type { Note } from "./notes.ts";

export interface Counts {
  passed: number;
  failed: number;
  skipped: number;
}

const slowestMax = 10;

/** Counts a line of AVA's report, if it is the result of a test. */
export function countsOf(line: string, counts: Counts): void {
  if (/^ *✔ /.test(line)) counts.passed++;
  if (/^ *✘ /.test(line)) counts.failed++;
  if (/^ *- \[skip\] /.test(line)) counts.skipped++;
}

/**
 * Whether a line of AVA's report begins its failures: their list at the end, or before it, after a
 * timeout, the tests that have not ended.
 */
export function isEndOf(line: string): boolean {
  return /^ *(─+|✘ Timed out while running tests)$/.test(line);
}

/** The progress of the tests: ended files, tests, time, and running files. */
export function progressOf(
  notes: readonly Note[],
  counts: Counts,
  files: number,
  seconds: number,
): string {
  const ended = new Set(notes.flatMap((one) => (one.kind === "ended" ? [one.file] : [])));
  const running = notes.flatMap((one) => {
    return one.kind === "begun" && !ended.has(one.file) ? [one.file] : [];
  });
  const tests = `${counts.passed} tests passed, ${counts.failed} failed`;
  const now = running.length === 0 ? "" : `; running ${running.join(", ")}`;
  return `  … ${ended.size} of ${files} files, ${tests}, ${timeOf(seconds)}${now}`;
}

/**
 * The summary: skipped tests by reason; tests that try some of their cases; the slowest files;
 * AVA's report of failures; the counts in the last line.
 */
export function summaryOf(
  notes: readonly Note[],
  counts: Counts,
  failures: readonly string[],
  seconds: number,
): string {
  const byReason = new Map<string, string[]>();
  for (const one of notes) {
    if (one.kind !== "skipped") continue;
    const titles = byReason.get(one.reason) ?? [];
    if (!titles.includes(one.title)) byReason.set(one.reason, [...titles, one.title]);
  }
  const some = [...new Set(notes.flatMap((one) => (one.kind === "some" ? [one.cases] : [])))];
  const reasons = [...byReason].flatMap(([reason, titles]) => [
    `  ${reason}`,
    ...titles.map((title) => `    - ${title}`),
  ]);
  const sum = `${counts.passed} tests passed, ${counts.failed} failed, ${counts.skipped} skipped`;
  const slowest = notes
    .flatMap((one) => (one.kind === "ended" ? [one] : []))
    .sort((a, b) => b.seconds - a.seconds)
    .slice(0, slowestMax);
  return [
    "",
    byReason.size === 0 ? "No test was skipped." : "Skipped tests:",
    ...reasons,
    ...(some.length === 0 ? [] : ["", "Tried in part here, in full by `npm run test:all`:"]),
    ...some.map((cases) => `    - ${cases}`),
    "",
    "The slowest files:",
    ...slowest.map((one) => `  ${one.seconds.toFixed(1).padStart(6)} s  ${one.file}`),
    ...failures,
    "",
    `${sum}, in ${timeOf(seconds)}`,
  ].join("\n");
}

function timeOf(seconds: number): string {
  const minutes = Math.floor(seconds / 60);
  return minutes === 0 ? `${seconds.toFixed(0)} s` : `${minutes} min ${Math.floor(seconds % 60)} s`;
}

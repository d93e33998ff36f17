// `npm test`: runs ava, prints its progress every few seconds, and ends with the skipped tests and
// their reasons, the slowest files, and one line of counts, which `.ci/run` reads. `--all` leaves
// nothing out, `--profile` adds a table of processor time; other arguments go to ava.

import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { stripVTControlCharacters } from "node:util";
import { notesVariable, readNotes, testAllVariable } from "./notes.ts";
import { profileOf, profileVariable } from "./profile.ts";
import { type Counts, countsOf, isEndOf, progressOf, summaryOf } from "./report.ts";

const progressEveryMs = 10_000;
/** Tests of one run write less than half of it. */
const memoryMinBytes = 2 * 2 ** 30;

const args = process.argv.slice(2);
const isAll = args.includes("--all");
const isProfile = args.includes("--profile");
const named = args.filter((arg) => arg.endsWith(".js"));

// What tests write lies in memory where there is room: tests sync thousands of small files, and a
// disk takes milliseconds for each. `--all` syncs to the disk.
const directory = mkdtempSync(join(isAll ? tmpdir() : memoryDirectory(), "osiris-npm-test-"));
const path = join(directory, "notes");
writeFileSync(path, "");
const all = readdirSync("dist/test", { recursive: true, encoding: "utf8" });
const files =
  named.length > 0 ? named.length : all.filter((name) => name.endsWith(".test.js")).length;

const ava = fileURLToPath(new URL("cli.mjs", import.meta.resolve("ava")));
const child = spawn(
  process.execPath,
  [ava, ...args.filter((arg) => arg !== "--all" && arg !== "--profile")],
  {
    stdio: ["inherit", "pipe", "inherit"],
    env: {
      ...process.env,
      [notesVariable]: path,
      ...(isAll ? { [testAllVariable]: "1" } : {}),
      ...(isProfile ? { [profileVariable]: "1" } : {}),
      TMPDIR: directory,
      ...(process.stdout.isTTY ? { FORCE_COLOR: "1" } : {}),
    },
  },
);

const counts: Counts = { passed: 0, failed: 0, skipped: 0 };
const lines = createInterface({ input: child.stdout });
/** What ava says of failures at its end: kept for our end, which a log that was cut still has. */
const failures: string[] = [];
let isEnd = false;
lines.on("line", (line) => {
  const plain = stripVTControlCharacters(line);
  countsOf(plain, counts);
  if (isEndOf(plain)) isEnd = true;
  if (isEnd) failures.push(line);
  else say(line);
});

const seconds = (): number => process.uptime();
const progress = setInterval(() => {
  say(progressOf(readNotes(path), counts, files, seconds()));
}, progressEveryMs);

for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => child.kill(signal));

child.on("close", (code) => {
  clearInterval(progress);
  if (isProfile) say(profileOf(readNotes(path)));
  say(summaryOf(readNotes(path), counts, failures, seconds()));
  rmSync(directory, { recursive: true, force: true });
  process.exitCode = code ?? 1;
});

/** A directory in memory that has room for tests, and runs the scripts that tests write. */
function memoryDirectory(): string {
  const memory = "/dev/shm";
  const probe = join(memory, `osiris-probe-${process.pid}`);
  try {
    const { bavail, bsize } = statfsSync(memory);
    if (bavail * bsize < memoryMinBytes) return tmpdir();
    writeFileSync(probe, "#!/bin/sh\n", { mode: 0o755 });
    execFileSync(probe);
    return memory;
  } catch {
    return tmpdir(); // No such directory, or it is mounted so that nothing runs in it.
  } finally {
    rmSync(probe, { force: true });
  }
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

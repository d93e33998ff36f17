// `npm test`: runs AVA, prints progress every few seconds, and ends with the skipped tests and
// their reasons, the slowest files, and one line of counts, which `.ci/run` reads.
//
//   npm test                                  every room in one worker (test/runner/rooms.ts)
//   npm test -- dist/test/job/loss.test.js    these files alone
//   npm test -- --all                         every case, as in `npm run test:all`
//   npm test -- --profile [FILE...]           ends with processor time by file and cause
//   npm test -- --load 8 --times 3            three times, with eight busy processes beside
//
// Other arguments are passed to AVA.

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { parseArgs, stripVTControlCharacters } from "node:util";
import { notesVariable, readNotes, testAllVariable } from "./notes.ts";
import { profileOf, profileVariable } from "./profile.ts";
import { type Counts, countsOf, isEndOf, progressOf, summaryOf } from "./report.ts";
import { testFilesIn } from "./rooms.ts";

const progressEveryMs = 10_000;
/** Required free memory: the tests of one run write less than half of it. */
const memoryMinBytes = 2 * 2 ** 30;
/** The maximum life of a busy process, in case its parent is killed. */
const busyMaxSeconds = 3 * 3600;

const options = {
  all: { type: "boolean", default: false },
  profile: { type: "boolean", default: false },
  load: { type: "string", default: "0" },
  times: { type: "string", default: "1" },
} as const;
const parsed = parseArgs({ options, strict: false, tokens: true });
const { all: isAll, profile: isProfile } = parsed.values;
/** Other arguments, passed to AVA unchanged. */
const rest = process.argv
  .slice(2)
  .filter((_, index) => !parsed.tokens.some((token) => isOwn(token, index)));
const areFilesNamed = rest.some((arg) => arg.endsWith(".js"));
const areRooms = !areFilesNamed && isProfile !== true;

let running: ChildProcess | undefined;
let isStopped = false;
const busy = Array.from({ length: Number(parsed.values.load) }, startBusy);
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.on(signal, () => {
    isStopped = true;
    running?.kill(signal);
  });
}

for (let time = 0; time < Number(parsed.values.times) && !isStopped; time++) {
  const code = await runAva();
  if (code !== 0) process.exitCode = code;
}
for (const child of busy) child.kill("SIGKILL");

type Token = (typeof parsed.tokens)[number];

/** Whether an argument, or its value, is one of the options above. */
function isOwn(token: Token, index: number): boolean {
  if (token.kind !== "option" || !Object.hasOwn(options, token.name)) return false;
  const isValueBehind = token.value !== undefined && !token.inlineValue;
  return index === token.index || (isValueBehind && index === token.index + 1);
}

/** Runs AVA once, to its end. Returns its exit code. */
async function runAva(): Promise<number> {
  // Tests write to a directory in memory if there is room: they sync thousands of small files, and
  // a disk takes milliseconds for each. `--all` syncs to the disk.
  const directory = mkdtempSync(join(isAll ? tmpdir() : memoryDirectory(), "osiris-npm-test-"));
  const notes = join(directory, "notes");
  writeFileSync(notes, "");
  const startedMs = performance.now();
  const seconds = (): number => (performance.now() - startedMs) / 1000;
  const ava = fileURLToPath(new URL("cli.mjs", import.meta.resolve("ava")));
  const child = spawn(process.execPath, [ava, ...rest], {
    stdio: ["inherit", "pipe", "inherit"],
    env: {
      ...process.env,
      [notesVariable]: notes,
      ...(areRooms ? { OSIRIS_TEST_ROOMS: "1" } : {}),
      ...(isAll ? { [testAllVariable]: "1" } : {}),
      ...(isProfile ? { [profileVariable]: "1" } : {}),
      TMPDIR: directory,
      ...(process.stdout.isTTY ? { FORCE_COLOR: "1" } : {}),
    },
  });
  running = child;
  const counts: Counts = { passed: 0, failed: 0, skipped: 0 };
  /** AVA's report of failures, repeated at the end, which a truncated log still has. */
  const failures: string[] = [];
  let isEnd = false;
  createInterface({ input: child.stdout }).on("line", (line) => {
    const plain = stripVTControlCharacters(line);
    countsOf(plain, counts);
    if (isEndOf(plain)) isEnd = true;
    if (isEnd) failures.push(line);
    else say(line);
  });
  const files = countFiles();
  const progress = setInterval(() => {
    say(progressOf(readNotes(notes), counts, files, seconds()));
  }, progressEveryMs);
  const code = await new Promise<number>((resolve) => {
    child.on("close", (exit) => resolve(exit ?? 1));
  });
  clearInterval(progress);
  if (isProfile) say(profileOf(readNotes(notes)));
  say(summaryOf(readNotes(notes), counts, failures, seconds()));
  rmSync(directory, { recursive: true, force: true });
  return code;
}

function countFiles(): number {
  if (areFilesNamed) return rest.filter((arg) => arg.endsWith(".js")).length;
  if (!areRooms) return testFilesIn("dist").length;
  return readdirSync("dist/rooms").filter((name) => name.endsWith(".test.js")).length;
}

/** A process that keeps a core busy until it is killed, or its parent has gone. */
function startBusy(): ChildProcess {
  const program = `
    const parent = process.ppid, endMs = Date.now() + ${busyMaxSeconds * 1000};
    while (process.ppid === parent && Date.now() < endMs) for (let i = 0; i < 1e7; i++);`;
  return spawn(process.execPath, ["-e", program], { stdio: "ignore" });
}

/** A directory in memory that has room for tests and can run the scripts that tests write. */
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
    return tmpdir(); // It is missing, or mounted noexec.
  } finally {
    rmSync(probe, { force: true });
  }
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

// `npm test`: runs ava, says every few seconds how far it is, and ends with what was skipped and
// why, the slowest files, and one line of counts, which `.ci/run` reads. `--soak` runs all cases of
// tests that try some of many; other arguments go to ava.

import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { stripVTControlCharacters } from "node:util";
import { notesVariable, readNotes } from "./notes.ts";
import { type Counts, countsOf, progressOf, summaryOf } from "./report.ts";

const progressEveryMs = 10_000;

const directory = mkdtempSync(join(tmpdir(), "osiris-npm-test-"));
const path = join(directory, "notes");
writeFileSync(path, "");
const args = process.argv.slice(2);
const named = args.filter((arg) => !arg.startsWith("-"));
const all = readdirSync("dist/test", { recursive: true, encoding: "utf8" });
const files =
  named.length > 0 ? named.length : all.filter((name) => name.endsWith(".test.js")).length;

const ava = fileURLToPath(new URL("cli.mjs", import.meta.resolve("ava")));
const child = spawn(process.execPath, [ava, ...args.filter((arg) => arg !== "--soak")], {
  stdio: ["inherit", "pipe", "inherit"],
  env: {
    ...process.env,
    [notesVariable]: path,
    ...(args.includes("--soak") ? { SOAK: "1" } : {}),
    ...(process.stdout.isTTY ? { FORCE_COLOR: "1" } : {}),
  },
});

const counts: Counts = { passed: 0, failed: 0 };
const lines = createInterface({ input: child.stdout });
lines.on("line", (line) => {
  countsOf(stripVTControlCharacters(line), counts);
  say(line);
});

const seconds = (): number => process.uptime();
const progress = setInterval(() => {
  say(progressOf(readNotes(path), counts, files, seconds()));
}, progressEveryMs);

for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => child.kill(signal));

child.on("close", (code) => {
  clearInterval(progress);
  say(summaryOf(readNotes(path), counts, seconds()));
  rmSync(directory, { recursive: true });
  process.exitCode = code ?? 1;
});

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

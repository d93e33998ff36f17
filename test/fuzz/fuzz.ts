// `npm run fuzz`: feeds randomly mutated inputs to every reader of external input for some minutes,
// and prints a table. Exit code 1: there are findings.

import { execFileSync } from "node:child_process";
import { rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { type Counts, type Finding, runSession } from "./session.ts";
import { targets } from "./targets.ts";

const help = `Usage: npm run fuzz -- [options]

Feeds the readers of files, messages and requests with inputs that are changed at random. A reader
ends with a value, or with an error of the product's own, in bounded time and memory; anything else
is a finding: it is printed, its input is written to a file, and the exit code is 1.

  --minutes N   how long, over all targets (default 1)
  --cases N     instead: so many cases of each target
  --only NAME   targets whose name contains this; may be repeated
  --seed S      of all changes (default 1); a case follows from seed, target and number
  --case N      this case alone, of the targets of --only
  --plain       the usual addon, without the sanitizers
  --folder DIR  where inputs of findings go (default: osiris-fuzz in the folder of temporary files)
  --list        the names of the targets
  --help

The addon is compiled under the address and the undefined-behaviour sanitizers first
(native/sanitize.sh); without a compiler, the usual one is used.`;

const { values: given } = parseArgs({
  options: {
    minutes: { type: "string", default: "1" },
    cases: { type: "string" },
    only: { type: "string", multiple: true, default: [""] },
    seed: { type: "string", default: "1" },
    case: { type: "string" },
    folder: { type: "string", default: join(tmpdir(), "osiris-fuzz") },
    plain: { type: "boolean", default: false },
    list: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});

const say = (text: string) => process.stdout.write(`${text}\n`);

/** The value of an option that is a number >= 0; undefined: not given. */
function numberOf(name: "minutes" | "cases" | "seed" | "case"): number | undefined {
  const text = given[name];
  if (text === undefined) return undefined;
  const value = Number(text);
  if (Number.isFinite(value) && value >= 0 && text.trim() !== "") return value;
  process.stderr.write(`Expected --${name} to be a number >= 0, got ${text}\n`);
  process.exit(2);
}

const names = targets.map(({ name }) => name);
const wanted = names.filter((name) => given.only.some((part) => name.includes(part)));

if (given.help) say(help);
else if (given.list) say(names.join("\n"));
else if (wanted.length === 0) {
  process.stderr.write(`Expected --only to be a part of a name: ${names.join(", ")}\n`);
  process.exitCode = 2;
} else await fuzz();

async function fuzz(): Promise<void> {
  const [seed = 1, cases, one] = [numberOf("seed"), numberOf("cases"), numberOf("case")];
  const minutes = numberOf("minutes") ?? 1;
  const addon = given.plain ? undefined : sanitizedAddon();
  const stop = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => stop.abort());
  const isTimed = cases === undefined && one === undefined;
  const timer = isTimed ? setTimeout(() => stop.abort(), minutes * 60_000) : undefined;
  const seen = new Map<string, number>();
  const counts = await runSession({
    ...{ seed, addon, names: wanted, catalogue: "targets", signal: stop.signal },
    folder: resolve(given.folder),
    first: one ?? 0,
    end: one === undefined ? (cases ?? Number.MAX_SAFE_INTEGER) : one + 1,
    caseMsMax: 20_000,
    memoryBytesMax: 2 ** 31,
    onFinding: (finding) => print(finding, seed, seen),
    onProgress: (now) => say(progressOf(now)),
  });
  clearTimeout(timer);
  say(tableOf(counts));
  if ([...counts.values()].some(({ findings }) => findings > 0)) process.exitCode = 1;
}

/**
 * The path of the addon built with sanitizers, which is compiled if missing; undefined without a
 * compiler.
 */
function sanitizedAddon(): string | undefined {
  const path = resolve("native/build/sanitized.node");
  try {
    execFileSync(process.env.CXX ?? "g++", ["--version"], { stdio: "ignore" });
  } catch {
    say("There is no compiler: the addon runs without the sanitizers");
    return undefined;
  }
  execFileSync("sh", ["native/sanitize.sh", "--addon", path], { stdio: "inherit" });
  return path;
}

/** Prints a finding in full, or in one line if it resembles an earlier one. */
function print(finding: Finding, seed: number, seen: Map<string, number>): void {
  const { target, number, error, details, file } = finding;
  const [, place = ""] = /at (.*)/.exec(details) ?? [];
  const kind = `${target}: ${error.replace(/\d+/g, "#").slice(0, 80)} ${place}`;
  const before = seen.get(kind) ?? 0;
  seen.set(kind, before + 1);
  if (before > 0) {
    rmSync(file, { force: true });
    return;
  }
  say(`\nFinding in ${target}: ${error}\n${details}`);
  say(`  again: npm run fuzz -- --only "${target}" --seed ${seed} --case ${number}`);
  say(`  input: ${file}\n`);
}

/** Cases per second by target, in one line. */
function progressOf(counts: ReadonlyMap<string, Counts>): string {
  const each = [...counts].map(([name, { cases, ms }]) => {
    return `${name} ${Math.round((1000 * cases) / Math.max(1, ms))}/s`;
  });
  const [cases, findings] = [...counts.values()].reduce(
    ([sum, found], own) => [sum + own.cases, found + own.findings],
    [0, 0],
  );
  return `${cases} cases, ${findings} findings; ${each.join(", ")}`;
}

function tableOf(counts: ReadonlyMap<string, Counts>): string {
  const head = ["target", "cases", "a second", "accepted", "refused", "findings"];
  const rows = [...counts].map(([name, { cases, accepted, findings, ms }]) => [
    ...[name, cases, Math.round((1000 * cases) / Math.max(1, ms)), accepted],
    ...[cases - accepted - findings, findings],
  ]);
  const lines = [head, ...rows].map((row) =>
    row.map((cell, i) => (i === 0 ? `${cell}`.padEnd(24) : `${cell}`.padStart(10))).join(""),
  );
  return lines.join("\n");
}

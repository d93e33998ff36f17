// The command of the benches: its output; and, in separate processes, what an interruption leaves
// behind. The peer is a shell script, so the test needs no PyTorch.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import test from "ava";
import { CommanderError } from "commander";
import { benchCommand } from "../../bench/command.ts";
import type { BenchRow } from "../../bench/row.ts";
import { runSession } from "../../bench/session.ts";
import { startDirectory } from "../data/data-files.ts";
import { testAll, testIf } from "../helpers/needs.ts";
import { until } from "../helpers/until.ts";

const program = fileURLToPath(new URL("../../bench/run.js", import.meta.url));

interface Ended {
  readonly code: number;
  readonly stdout: readonly string[];
  readonly stderr: readonly string[];
}

/** Runs the command. If no directory is given, measuring is an error. */
async function bench(words: readonly string[], directory?: string): Promise<Ended> {
  const [stdout, stderr]: [string[], string[]] = [[], []];
  const command = benchCommand({
    print: (line) => void stdout.push(line),
    tell: (line) => void stderr.push(line),
    session(work, receive) {
      if (directory === undefined) throw new Error(`measures ${work.bench}`);
      return runSession(work, receive, directory);
    },
  });
  command.exitOverride().configureOutput({ writeErr: (text) => void stderr.push(text.trim()) });
  const before = process.exitCode;
  try {
    await command.parseAsync(words, { from: "user" });
    return { code: Number(process.exitCode), stdout, stderr };
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    return { code: error.exitCode, stdout, stderr };
  } finally {
    process.exitCode = before; // This process also runs other tests.
  }
}

testIf(testAll).serial(
  "--list prints the names that --only selects, and measures nothing",
  async (t) => {
    const words = ["exchange", "--list", "--only", "wire.allReduce", "*.barrier"];
    const { code, stdout } = await bench(words);
    t.is(code, 0);
    t.deepEqual(stdout, [
      "shared.barrier",
      "wire.allReduce.8MiB",
      "wire.allReduce.64MiB",
      "wire.barrier",
      "hierarchical.barrier",
    ]);
  },
);

test.serial("a pattern that matches no row is refused in one sentence", async (t) => {
  const { code, stdout, stderr } = await bench(["kernels", "--only", "gemm.f64"]);
  t.is(code, 1);
  t.deepEqual(stdout, []);
  t.deepEqual(stderr, ['No row of kernels begins with "gemm.f64": --list prints the names.']);
});

test.serial("each row is a line of JSON, the last line has the machine and all rows", async (t) => {
  const directory = startDirectory(t);
  const words = ["planner", "--tables", "10", "--devices", "4", "--rounds", "2", "--json"];
  const { code, stdout, stderr } = await bench(words, directory);
  t.is(code, 0);
  const rows = stdout.slice(0, -1).map((line) => JSON.parse(line) as BenchRow);
  t.deepEqual(
    rows.map(({ name }) => name),
    ["planner.10.4.search", "planner.10.4.balance"],
  );
  const [search] = rows;
  t.deepEqual(Object.keys(search ?? {}).sort(), [
    "figure",
    "limit",
    "limitIs",
    "name",
    "ratio",
    "spread",
    "unit",
  ]);
  const last = JSON.parse(stdout.at(-1) ?? "{}");
  t.is(last.bench, "planner");
  t.is(typeof last.machine.cores, "number");
  t.deepEqual(last.rows, rows);
  t.regex(stderr[0] ?? "", /^planner: 2 rows, about \d+ s\. Ctrl-C ends it\.$/);
  t.deepEqual(readdirSync(directory), []);
});

/** A fake Python that measures batches of 128 at once, and hangs on batches of 2048. */
const fakePython = `#!/bin/sh
if [ "$3" = 2048 ]; then
  echo "$$ $PPID" > pids.part && mv pids.part pids
  exec sleep 1000000
fi
echo "torch 9.9: 3 steps, samples/s p10 1 median 2 p90 3"
`;

testIf(testAll)("Ctrl-C prints the rows so far, and leaves no process and no file", async (t) => {
  const directory = startDirectory(t);
  const python = join(directory, "python");
  writeFileSync(python, fakePython, { mode: 0o755 });
  const only = ["--only", "train.a.*.sgd.float32"];
  const short = ["--rounds", "1", "--seconds", "1", "--python", python, "--json"];
  const child = spawn(process.execPath, [program, "peers", ...only, ...short], {
    cwd: directory,
    stdio: ["ignore", "pipe", "ignore"],
  });
  const stdout = textOf(child);
  const closed = once(child, "close");
  const pids = join(directory, "pids");
  while (!existsSync(pids) && child.exitCode === null) await sleep(20);
  child.kill("SIGINT");
  const [code] = await closed;
  t.is(code, 130);

  const [row, last, ...others] = (await stdout).trim().split("\n");
  t.deepEqual(others, []);
  const { name, figure, unit, ratio, target, limitIs } = JSON.parse(row ?? "{}") as BenchRow;
  t.is(name, "train.a.128.sgd.float32");
  t.is(unit, "samples/s");
  // On a busy machine, the speed may change within the only pair, which then gives no ratio.
  if (ratio === undefined) t.regex(limitIs ?? "", /; 1 across levels$/);
  else t.is(ratio, figure / 2);
  t.deepEqual(target, [1.3, 1.7]);
  const summary = JSON.parse(last ?? "{}");
  t.true(summary.interrupted);
  t.deepEqual(summary.rows, [JSON.parse(row ?? "{}")]);

  const [peer, group] = readFileSync(pids, "utf8").split(" ").map(Number);
  await until("the end of the peer", () => !isAlive(peer ?? 0) && !isAlive(-(group ?? 0)));
  t.deepEqual(readdirSync(directory).sort(), ["pids", "python"]);
});

async function textOf({ stdout }: ChildProcess): Promise<string> {
  let text = "";
  for await (const piece of stdout ?? []) text += piece;
  return text;
}

/** Whether a process is alive; a negative number names the process group of that leader. */
function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

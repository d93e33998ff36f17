// Drives workers: limits their time and memory, starts another one when one ends, and counts cases.

import { type ChildProcess, execFileSync, fork } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { fileOf, type Plan, type Told } from "./worker.ts";

export interface SessionOptions extends Pick<Plan, "seed" | "catalogue" | "folder" | "addon"> {
  readonly names: readonly string[];
  /** Cases of each target: from `first` up to, not including, `end`. */
  readonly first: number;
  readonly end: number;
  /** Maximum time of a case. */
  readonly caseMsMax: number;
  /** Maximum resident memory of a worker. */
  readonly memoryBytesMax: number;
  readonly signal: AbortSignal;
  onFinding(finding: Finding): void;
  /** Called every ten seconds. */
  onProgress(counts: ReadonlyMap<string, Counts>): void;
}

export interface Finding {
  readonly target: string;
  readonly number: number;
  readonly error: string;
  /** The stack of the error, or the report of a sanitizer. */
  readonly details: string;
  readonly file: string;
}

/** The outcomes of a target's cases. */
export interface Counts {
  cases: number;
  accepted: number;
  findings: number;
  /** Total time of the cases. */
  ms: number;
}

/** Maximum time in which a worker loads its modules, or makes the seeds of a target. */
const startMsMax = 120_000;
const watchEveryMs = 50;
const progressEveryMs = 10_000;
/** A limit, because a worker that ends before its first case would be restarted for ever. */
const failedStartsMax = 3;

/** Runs until all cases are done, or the signal aborts. Returns the counts by target. */
export async function runSession(options: SessionOptions): Promise<ReadonlyMap<string, Counts>> {
  const counts = new Map<string, Counts>();
  for (const name of options.names) counts.set(name, { cases: 0, accepted: 0, findings: 0, ms: 0 });
  const next = new Map(options.names.map((name) => [name, options.first]));
  let failedStarts = 0;
  mkdirSync(options.folder, { recursive: true });
  const ticker = setInterval(() => options.onProgress(counts), progressEveryMs);
  try {
    while (!options.signal.aborted && [...next.values()].some((number) => number < options.end)) {
      const before = sumOf(counts);
      await runWorker(options, counts, next);
      failedStarts = sumOf(counts) === before ? failedStarts + 1 : 0;
      if (failedStarts === failedStartsMax) throw new Error("the worker ends without a case");
    }
  } finally {
    clearInterval(ticker);
  }
  return counts;
}

const sumOf = (counts: ReadonlyMap<string, Counts>) =>
  [...counts.values()].reduce((sum, { cases }) => sum + cases, 0);

/** Runs one worker until it ends. */
async function runWorker(
  options: SessionOptions,
  counts: Map<string, Counts>,
  next: Map<string, number>,
): Promise<void> {
  const { seed, catalogue, folder, addon, end } = options;
  const cases = Object.fromEntries([...next].map(([name, first]) => [name, [first, end] as const]));
  const home = mkdtempSync(join(tmpdir(), "osiris-fuzz-"));
  const child = startWorker({ seed, catalogue, folder, addon, cases }, home);
  let running: { target: string; number: number; msMax: number } | undefined;
  let seeds = "";
  let since = Date.now();
  let why: string | undefined;
  let errors = "";
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    errors = `${errors}${text}`.slice(-16_384);
  });
  const finished = (isAccepted: boolean) => {
    const own = counts.get(running?.target ?? "");
    if (own === undefined || running === undefined) return;
    own.cases++;
    own.accepted += isAccepted ? 1 : 0;
    own.ms += Date.now() - since;
    next.set(running.target, running.number + 1);
    running = undefined;
  };
  const found = (finding: Omit<Finding, "target" | "number">) => {
    if (running === undefined) return;
    const { target, number } = running;
    finished(false);
    (counts.get(target) as Counts).findings++;
    options.onFinding({ target, number, ...finding });
  };
  const kill = (reason: string) => {
    why ??= reason;
    child.kill("SIGKILL");
  };
  const watch = setInterval(() => {
    const took = Date.now() - since;
    if (took > (running?.msMax ?? startMsMax)) kill(`no end after ${took} ms`);
    const bytes = memoryOf(child);
    if (bytes > options.memoryBytesMax) kill(`${Math.round(bytes / 2 ** 20)} MiB of memory`);
  }, watchEveryMs);
  const stop = () => child.kill("SIGKILL");
  options.signal.addEventListener("abort", stop);
  const ended = new Promise<string>((done) => {
    child.on("close", (code, signal) => done(signal ?? `exit code ${code}`));
  });
  for await (const line of createInterface({ input: child.stdio[3] as NodeJS.ReadableStream })) {
    const told: Told = JSON.parse(line);
    if (told.kind === "seeds") seeds = told.target;
    else if (told.kind === "case") {
      const { target, number, msMax = 0 } = told;
      running = { target, number, msMax: Math.max(msMax, options.caseMsMax) };
    } else if (told.kind === "end") finished(told.isAccepted);
    else found({ error: told.error, details: told.stack, file: told.file });
    since = Date.now();
  }
  const how = await ended;
  rmSync(home, { recursive: true, force: true });
  clearInterval(watch);
  options.signal.removeEventListener("abort", stop);
  if (options.signal.aborted || how === "exit code 0") return;
  if (running === undefined) throw new Error(`the seeds of ${seeds}: ${why ?? how}\n${errors}`);
  const file = fileOf(folder, running.target, seed, running.number);
  writeFileSync(`${file}.txt`, errors);
  found({
    error: `the process ended: ${why ?? how}`,
    details: shortOf(errors),
    file: `${file}.txt`,
  });
}

/** The relevant lines of a sanitizer's report, or the last lines. */
function shortOf(errors: string): string {
  const lines = errors.trimEnd().split("\n");
  const from = lines.findIndex((line) => /ERROR: |runtime error|FATAL ERROR/.test(line));
  return (from < 0 ? lines.slice(-12) : lines.slice(from, from + 16)).join("\n");
}

/**
 * Starts a worker. `home`: the directory for its files, which the session removes because a killed
 * worker leaves them.
 */
function startWorker(plan: Plan, home: string): ChildProcess {
  const { addon } = plan;
  const program = fileURLToPath(new URL("worker.js", import.meta.url));
  const path = existsSync(program) ? program : join("dist", "test", "fuzz", "worker.js");
  return fork(path, [JSON.stringify(plan)], {
    execArgv: ["--max-old-space-size=512"],
    stdio: ["ignore", "ignore", "pipe", "pipe", "ipc"],
    env: {
      ...process.env,
      TMPDIR: home,
      NODE_OPTIONS: "",
      ...(addon === undefined ? {} : sanitizing()),
    },
  });
}

/** The environment that preloads both sanitizers, which end the process at their first finding. */
function sanitizing(): Readonly<Record<string, string>> {
  const compiler = process.env.CXX ?? "g++";
  const libraries = ["libasan.so", "libubsan.so", "libstdc++.so.6"].map((name) =>
    execFileSync(compiler, [`-print-file-name=${name}`], { encoding: "utf8" }).trim(),
  );
  return {
    LD_PRELOAD: libraries.join(" "),
    // No leak detection, as Node keeps memory until its end; no check of stack use, as its garbage
    // collector scans stacks.
    ASAN_OPTIONS:
      "detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=1024:quarantine_size_mb=16:" +
      "detect_stack_use_after_return=0:handle_segv=1",
    UBSAN_OPTIONS: "print_stacktrace=1",
  };
}

/** Resident bytes of a process; 0 if the system does not report them. */
function memoryOf({ pid }: ChildProcess): number {
  if (process.platform !== "linux" || pid === undefined) return 0;
  try {
    const pages = Number(readFileSync(`/proc/${pid}/statm`, "utf8").split(" ")[1]);
    return pages * 4096;
  } catch {
    return 0; // It has ended.
  }
}

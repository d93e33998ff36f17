// Question: what does the start of a thread or a process cost until its program is loaded, in
// processor time? Peers: the same program from its compiled modules; and an empty thread, which is
// Node's own cost.

import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { Worker } from "node:worker_threads";
import { openThread } from "../../src/ports/launcher.ts";
import { type Bench, positiveOption, single } from "../bench.ts";
import { type BenchRow, quantiles, rowOf } from "../row.ts";

/** Programs of threads: the file of the rollup, and the compiled module. */
const programs = {
  device: ["device-program", "device-program"],
  reader: ["reader-program", "reader-program"],
  writer: ["writer-program", "writer-program"],
  tier: ["tier-program", "tier-program"],
  prepare: ["prepare-data", "data/prepare-data"],
} as const;
/** Programs of processes: the name of the rollup, and the path of the compiled module. */
const processes = { osiris: "cli/osiris", index: "index" } as const;
const compiled = new URL("../..", import.meta.url);
const unit = "ms";

interface ThreadsBenchOptions {
  readonly rounds: number;
}

type Start = (files: readonly string[]) => number | Promise<number>;

export const threadsBench: Bench<ThreadsBenchOptions> = {
  question: "what the start of a thread or a process costs, until its program is loaded",
  options: [positiveOption("--rounds <count>", "starts of each", 21)],
  measurements({ rounds }) {
    const rows = Object.entries(programs).map(([program, [rollup, modules]]) => {
      const rolled = [`threads/${rollup}.cjs`];
      const compiledFiles = ["actors/threads/thread-entry.js", `actors/threads/${modules}.js`];
      const row = () => programRow(`thread.${program}`, [rolled, compiledFiles], rounds, threadMs);
      return single(`thread.${program}`, 0.15 * rounds, row);
    });
    const own = Object.entries(processes).map(([program, modules]) => {
      const files = [[`processes/${program}.cjs`], [`${modules}.js`]] as const;
      const row = () => programRow(`process.${program}`, files, rounds, processMs);
      return single(`process.${program}`, 0.9 * rounds, row);
    });
    return [...rows, ...own, single("thread.empty", 0.04 * rounds, () => emptyRow(rounds))];
  },
};

/** Measures the program from the rollup and from its modules, in turn. */
async function programRow(
  name: string,
  [rollup, compiledFiles]: readonly [rollup: readonly string[], modules: readonly string[]],
  rounds: number,
  start: Start,
): Promise<BenchRow> {
  const [rolled, modules]: [number[], number[]] = [[], []];
  for (let round = 0; round < rounds; round++) {
    rolled.push(await start(rollup));
    modules.push(await start(compiledFiles));
  }
  return rowOf({ name, unit, limitIs: "modules" }, rolled, modules);
}

async function emptyRow(rounds: number): Promise<BenchRow> {
  const empty: number[] = [];
  for (let round = 0; round < rounds; round++) empty.push(await threadMs([]));
  const { median: figure, spread } = quantiles(empty);
  return { name: "thread.empty", figure, unit, spread };
}

/** Processor time of a thread that loads these files, or starts with this rollup, and ends. */
async function threadMs(files: readonly string[]): Promise<number> {
  const [rollup = ""] = files.filter((file) => file.endsWith(".cjs"));
  const modules = new URL(`data:text/javascript,${encodeURIComponent(loading(files))}`);
  const before = process.cpuUsage();
  const options = { workerData: {} };
  const worker =
    rollup === "" ? new Worker(modules, options) : openThread(new URL(rollup, compiled), options);
  await once(worker, "exit");
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

/** Processor time of a process that loads these files and ends. */
function processMs(files: readonly string[]): number {
  const code = `${loading(files)} console.log(JSON.stringify(process.cpuUsage()));`;
  const output = execFileSync(process.execPath, ["--input-type=module", "-e", code]);
  const { user, system } = JSON.parse(output.toString()) as NodeJS.CpuUsage;
  return (user + system) / 1000;
}

/** Source text of a program that loads these files. */
function loading(files: readonly string[]): string {
  const urls = files.map((file) => new URL(file, compiled).href);
  const missing = urls.find((url) => !existsSync(new URL(url)));
  if (missing !== undefined)
    throw new Error(`bench threads found no ${missing}: run \`npm run build\`, then run it again.`);
  return `for (const url of ${JSON.stringify(urls)}) await import(url);`;
}

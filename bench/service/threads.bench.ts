// Question: what does a thread's start cost until its program is loaded, in processor time? Beside
// the same program from its modules, as they were compiled; and an empty thread, which is Node's.

import { once } from "node:events";
import { existsSync } from "node:fs";
import { Worker } from "node:worker_threads";
import { Option } from "commander";
import { type Bench, positive, single } from "../bench.ts";
import { type BenchRow, quantiles, rowOf } from "../row.ts";

const programs = ["device", "reader", "writer", "tier"] as const;
const compiled = new URL("../..", import.meta.url);
const unit = "ms";

interface ThreadsBenchOptions {
  readonly rounds: number;
}

export const threadsBench: Bench<ThreadsBenchOptions> = {
  question: "what a thread's start costs, until its program is loaded",
  options: [
    new Option("--rounds <count>", "starts of each thread").argParser(positive).default(21),
  ],
  measurements({ rounds }) {
    const rows = programs.map((program) => {
      return single(`thread.${program}`, 0.15 * rounds, () => programRow(program, rounds));
    });
    return [...rows, single("thread.empty", 0.04 * rounds, () => emptyRow(rounds))];
  },
};

/** The program from the rollup and from its modules, in turn. */
async function programRow(program: string, rounds: number): Promise<BenchRow> {
  const [rolled, modules]: [number[], number[]] = [[], []];
  for (let round = 0; round < rounds; round++) {
    rolled.push(await startMs(["threads/thread-entry.cjs", `threads/${program}-program.cjs`]));
    modules.push(
      await startMs(["actors/threads/thread-entry.js", `actors/threads/${program}-program.js`]),
    );
  }
  return rowOf({ name: `thread.${program}`, unit, limitIs: "modules" }, rolled, modules);
}

async function emptyRow(rounds: number): Promise<BenchRow> {
  const empty: number[] = [];
  for (let round = 0; round < rounds; round++) empty.push(await startMs([]));
  const { median: figure, spread } = quantiles(empty);
  return { name: "thread.empty", figure, unit, spread };
}

/** Processor time of a thread that loads these files and ends. */
async function startMs(files: readonly string[]): Promise<number> {
  const urls = files.map((file) => new URL(file, compiled).href);
  const missing = urls.find((url) => !existsSync(new URL(url)));
  if (missing !== undefined)
    throw new Error(`bench threads found no ${missing}: run \`npm run build\`, then run it again.`);
  const code = `for (const url of ${JSON.stringify(urls)}) await import(url);`;
  const before = process.cpuUsage();
  const entry = new URL(`data:text/javascript,${encodeURIComponent(code)}`);
  const worker = new Worker(entry, { workerData: {} });
  await once(worker, "exit");
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

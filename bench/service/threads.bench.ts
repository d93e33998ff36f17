// Question: what does a thread's start cost until its program is loaded, in processor time? Beside
// the same program from its modules, as they were compiled; and an empty thread, which is Node's.

import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { type BenchRow, quantiles, rowOf } from "../report.ts";

const programs = ["device", "reader", "writer", "tier"] as const;
const rounds = 21;

const compiled = new URL("../..", import.meta.url);
const unit = "ms";

/** In turn, of one process that does nothing else. */
export async function benchThreads(): Promise<BenchRow[]> {
  const rows: BenchRow[] = [];
  const empty: number[] = [];
  for (const program of programs) {
    const [rolled, modules]: [number[], number[]] = [[], []];
    for (let round = 0; round < rounds; round++) {
      rolled.push(await startMs([`threads/thread-entry.js`, `threads/${program}-program.js`]));
      modules.push(
        await startMs([`actors/threads/thread-entry.js`, `actors/threads/${program}-program.js`]),
      );
      empty.push(await startMs([]));
    }
    rows.push(rowOf({ name: `thread.${program}`, unit, limitIs: "modules" }, rolled, modules));
  }
  const { median: figure, spread } = quantiles(empty);
  return [...rows, { name: "thread.empty", figure, unit, spread }];
}

/** Processor time of a thread that loads these files and ends. */
async function startMs(files: readonly string[]): Promise<number> {
  const urls = files.map((file) => new URL(file, compiled).href);
  const code = `for (const url of ${JSON.stringify(urls)}) await import(url);`;
  const before = process.cpuUsage();
  const entry = new URL(`data:text/javascript,${encodeURIComponent(code)}`);
  const worker = new Worker(entry, { workerData: {} });
  await once(worker, "exit");
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

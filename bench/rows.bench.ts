// Question: how close are lookups and updates of random rows to what memory allows, on one thread
// and on two? The limit is a bare loop in C over a table of the same size, measured in turn.

import { Worker } from "node:worker_threads";
import { limitOf } from "./limits.ts";
import { type BenchRow, rowOf } from "./report.ts";
import type { RowsWork } from "./rows-thread.ts";

const rounds = 5;
const roundSeconds = 0.4;
const dim = 64;

const works: readonly (RowsWork & { readonly name: string })[] = [
  { name: "lookup.f32.64.100", kind: "lookup", length: 100 },
  { name: "lookup.f32.64.1", kind: "lookup", length: 1 },
  { name: "update.f32.64.sgd", kind: "update", rule: "sgd" },
  { name: "update.f32.64.rowWiseAdagrad", kind: "update", rule: "rowWiseAdagrad" },
];

/** Rows of one thread, and of two (their names end in `.2`), whose tables add up to `gib`. */
export async function benchRows(gib: number, only: string): Promise<BenchRow[]> {
  const found: BenchRow[] = [];
  for (const threads of [1, 2]) {
    const named = works.map((work) => ({
      work,
      name: threads === 1 ? work.name : `${work.name}.${threads}`,
    }));
    const wanted = named.filter(({ name }) => name.startsWith(only));
    if (wanted.length === 0) continue;
    const rows = Math.floor((gib * 2 ** 30) / (4 * dim * threads));
    const workers = Array.from(
      { length: threads },
      () => new Worker(new URL("./rows-thread.js", import.meta.url), { workerData: { rows, dim } }),
    );
    for (const { work, name } of wanted) found.push(await measured(name, work, rows, workers));
    await Promise.all(workers.map((worker) => worker.terminate()));
  }
  return found;
}

async function measured(
  name: string,
  work: RowsWork,
  rows: number,
  workers: readonly Worker[],
): Promise<BenchRow> {
  const words =
    work.kind === "lookup"
      ? ["gather", rows, work.length, roundSeconds]
      : ["update", rows, roundSeconds];
  const limitIs = work.kind === "lookup" ? "bare gather in C" : "bare update in C";
  const ours: number[] = [];
  const limits: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const rates = await Promise.all(workers.map((worker) => rateOf(worker, work)));
    ours.push(rates.reduce((sum, rate) => sum + rate, 0) / 1e6);
    limits.push((await limitOf(workers.length, ...words)) / 1e6);
  }
  return rowOf({ name, unit: "Mrows/s", limitIs }, ours, limits);
}

function rateOf(worker: Worker, work: RowsWork): Promise<number> {
  return new Promise((resolve, reject) => {
    worker.once("message", resolve);
    worker.once("error", reject);
    worker.postMessage({ ...work, seconds: roundSeconds });
  });
}

// Question: how close are lookups and updates of random rows to what memory allows, on one thread
// and on two? The limit is a bare loop in C over a table of the same size, measured in turn; for
// rows in fewer bits, our float32. A bare update reads and writes each different row of a batch
// once, in ascending order and with prefetches; for row-wise Adagrad its state and mark, too. It
// lists and sorts no lookups, and reads no gradients.

import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { type Measurement, single } from "../bench.ts";
import { limitOf } from "../limits/limits.ts";
import { type BenchRow, rowOf } from "../row.ts";
import type { RowsWork } from "./rows-thread.ts";

const roundSeconds = 0.4;
const dim = 64;

const float32: readonly RowsWork[] = [
  { kind: "lookup", precision: "float32", length: 100 },
  { kind: "lookup", precision: "float32", length: 1 },
  { kind: "update", precision: "float32", rule: "sgd" },
  { kind: "update", precision: "float32", rule: "rowWiseAdagrad" },
];
const coded = (["float16", "bfloat16", "int8"] as const).flatMap((precision) =>
  float32
    .filter((work) => work.kind === "update" || work.length > 1)
    .map((work) => ({ ...work, precision })),
);
const shortNames = { float32: "f32", float16: "f16", bfloat16: "bf16", int8: "i8" } as const;

function nameOf(work: RowsWork): string {
  const what = work.kind === "lookup" ? work.length : work.rule;
  return `${work.kind}.${shortNames[work.precision]}.${dim}.${what}`;
}

/** Measurements of one thread, and of two (names end in `.2`), with tables of `gib` in total. */
export function rowMeasurements(gib: number, rounds: number): Measurement[] {
  const pool = openPool(gib);
  return [1, 2].flatMap((threads) => {
    const works = threads === 1 ? [...float32, ...coded] : float32;
    return works.map((work) => {
      const name = threads === 1 ? nameOf(work) : `${nameOf(work)}.${threads}`;
      const isCoded = work.precision !== "float32";
      // The bare loop in C writes its whole table first: about a second a gibibyte.
      const seconds = 3 + rounds * (2 * roundSeconds + (isCoded ? 0.1 : 0.7 * gib));
      return single(name, seconds, () => measured(name, work, pool(threads), rounds));
    });
  });
}

/** Threads, each with its own table, and the rows of a table. */
interface Pool {
  readonly rows: number;
  readonly workers: readonly Worker[];
}

/**
 * Starts threads when a measurement needs another number, and ends the others with their tables.
 */
function openPool(gib: number): (threads: number) => Pool {
  let open: Pool = { rows: 0, workers: [] };
  return (threads) => {
    if (open.workers.length === threads) return open;
    for (const worker of open.workers) void worker.terminate();
    const rows = Math.floor((gib * 2 ** 30) / (4 * dim * threads));
    const workers = Array.from(
      { length: threads },
      () => new Worker(new URL("./rows-thread.js", import.meta.url), { workerData: { rows, dim } }),
    );
    open = { rows, workers };
    return open;
  };
}

async function measured(
  name: string,
  work: RowsWork,
  { rows, workers }: Pool,
  rounds: number,
): Promise<BenchRow> {
  const isCoded = work.precision !== "float32";
  const words =
    work.kind === "lookup"
      ? ["gather", rows, work.length, roundSeconds]
      : [work.rule === "sgd" ? "update" : "updateLines", rows, roundSeconds, "sorted"];
  const rate = async (work: RowsWork) => {
    const rates = await Promise.all(workers.map((worker) => rateOf(worker, work)));
    return rates.reduce((sum, rate) => sum + rate, 0) / 1e6;
  };
  const limit = async () => {
    if (isCoded) return rate({ ...work, precision: "float32" });
    return (await limitOf(workers.length, ...words)) / 1e6;
  };
  const ours: number[] = [];
  const limits: number[] = [];
  await rate(work); // Warm-up: touches the memory for the first time.
  for (let round = 0; round < rounds; round++) {
    ours.push(await rate(work));
    limits.push(await limit());
  }
  const limitIs = isCoded ? "our float32, same rows" : `bare ${words[0]} in C`;
  return rowOf({ name, unit: "Mrows/s", limitIs }, ours, limits);
}

async function rateOf(worker: Worker, work: RowsWork): Promise<number> {
  worker.postMessage({ ...work, seconds: roundSeconds });
  const [rate] = await once(worker, "message");
  return rate;
}

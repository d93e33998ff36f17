// Question: how close are lookups and updates of random rows to what memory allows, on one thread
// and on two? The limit is a bare loop in C over a table of the same size, measured in turn; of
// rows in fewer bits, our float32. Row-wise Adagrad stands beside a second one (its name ends in
// `lines`), which also writes what lies on lines of its own: the row's state and its mark.

import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { limitOf } from "../limits/limits.ts";
import { type BenchRow, rowOf } from "../report.ts";
import type { RowsWork } from "./rows-thread.ts";

const rounds = 5;
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

/** Rows of one thread, and of two (their names end in `.2`), whose tables add up to `gib`. */
export async function benchRows(gib: number, only: string): Promise<BenchRow[]> {
  const found: BenchRow[] = [];
  for (const threads of [1, 2]) {
    const works = threads === 1 ? [...float32, ...coded] : float32;
    const named = works.map((work) => ({
      work,
      name: threads === 1 ? nameOf(work) : `${nameOf(work)}.${threads}`,
    }));
    const wanted = named.filter(({ name }) => name.startsWith(only));
    if (wanted.length === 0) continue;
    const rows = Math.floor((gib * 2 ** 30) / (4 * dim * threads));
    const workers = Array.from(
      { length: threads },
      () => new Worker(new URL("./rows-thread.js", import.meta.url), { workerData: { rows, dim } }),
    );
    for (const { work, name } of wanted) {
      found.push(await measured(name, work, rows, workers));
      if (work.precision !== "float32" || work.kind !== "update" || work.rule === "sgd") continue;
      found.push(await measured(`${name}.lines`, work, rows, workers, "updateLines"));
    }
    await Promise.all(workers.map((worker) => worker.terminate()));
  }
  return found;
}

async function measured(
  name: string,
  work: RowsWork,
  rows: number,
  workers: readonly Worker[],
  update: "update" | "updateLines" = "update",
): Promise<BenchRow> {
  const isCoded = work.precision !== "float32";
  const words =
    work.kind === "lookup"
      ? ["gather", rows, work.length, roundSeconds]
      : [update, rows, roundSeconds];
  const updateIs = update === "update" ? "bare update in C" : "bare update of rows, state, marks";
  const bare = work.kind === "lookup" ? "bare gather in C" : updateIs;
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
  await rate(work); // The memory's first touch is not of interest.
  for (let round = 0; round < rounds; round++) {
    ours.push(await rate(work));
    limits.push(await limit());
  }
  const limitIs = isCoded ? "our float32, same rows" : bare;
  return rowOf({ name, unit: "Mrows/s", limitIs }, ours, limits);
}

async function rateOf(worker: Worker, work: RowsWork): Promise<number> {
  worker.postMessage({ ...work, seconds: roundSeconds });
  const [rate] = await once(worker, "message");
  return rate;
}

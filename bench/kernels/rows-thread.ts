// One thread of the rows bench: a table of its own, far larger than the caches, and the kernels
// that read and update it. It answers each request with the rows a second of the fastest pass.

import { parentPort, workerData } from "node:worker_threads";
import type { Bags, RowRule, Rows } from "../../src/kernels/contract/kernels.ts";
import type { Precision } from "../../src/kernels/contract/precision.ts";
import { slicesOf } from "../../src/kernels/contract/slices.ts";
import { openKernels } from "../../src/kernels/index.ts";
import { RandomStream } from "../../src/ports/random.ts";
import { fastest } from "../row.ts";

/** A measurement that is requested of a thread. `length`: lookups of a bag. */
export type RowsWork = { readonly precision: Precision } & (
  | { readonly kind: "lookup"; readonly length: number }
  | { readonly kind: "update"; readonly rule: "sgd" | "rowWiseAdagrad" }
);

/** Lookups of a pass: so many that their rows exceed the caches many times. */
const lookups = 1 << 20;
/** Bags with pooled vectors in memory at a time: about as many as in a training step. */
const window = 4096;

const { rows, dim } = workerData as { rows: number; dim: number };
const kernels = openKernels("native");
const tables = new Map<Precision, Rows>();
const pooled = kernels.tensor([window, dim]);
kernels.uniform(pooled, [1, 2], 3, 0, 0.5);

/** The thread's table of a precision, all its memory written. */
function tableOf(precision: Precision): Rows {
  const made = tables.get(precision);
  if (made !== undefined) return made;
  const shape = { rows, dim, pooling: "sum", rowBlocks: 1, stateWidth: 1 } as const;
  const table = kernels.rows({ ...shape, precision });
  if (precision === "float32") kernels.fill(table.weights, 0.5);
  else table.codes.fill(precision === "float16" ? 0x3800 : precision === "int8" ? 64 : 0x3f00);
  table.exponents.fill(-7);
  tables.set(precision, table);
  return table;
}

function bagsOf(samples: number, length: number, seed: number): Bags {
  const random = new RandomStream(seed, 7);
  const ids = Int32Array.from({ length: samples * length }, () => random.word() % rows);
  const offsets = Int32Array.from({ length: samples + 1 }, (_, i) => i * length);
  return { tables: 1, samples, offsets, ids };
}

/** The call that is timed, and the rows that one call touches. */
interface Pass {
  readonly work: number;
  readonly run: () => void;
}

function lookup(table: Rows, length: number): Pass {
  const samples = Math.ceil(lookups / length / window) * window;
  const bags = bagsOf(samples, length, 1);
  const run = () => {
    for (let first = 0; first < samples; first += window) {
      kernels.pool(pooled, [table], bags, first, window);
    }
  };
  return { work: samples * length, run };
}

function update(table: Rows, rule: RowRule): Pass {
  const length = 64;
  const cut = slicesOf(0, 8, 8, window);
  const batches = Array.from({ length: 4 }, (_, seed) => bagsOf(window, length, seed));
  const run = () => {
    for (const bags of batches) kernels.updateRows([table], bags, pooled, cut, [rule]);
  };
  return { work: batches.length * window * length, run };
}

const rounding = { key: [1, 2], purpose: 3, step: 4 } as const;
const sgd: RowRule = { kind: "sgd", learningRate: 1e-3, l2: 0, decay: 0, rounding };
const rules = { sgd, rowWiseAdagrad: { ...sgd, kind: "rowWiseAdagrad", epsilon: 1e-8 } } as const;

const prepared = new Map<string, Pass>();

parentPort?.on("message", (work: RowsWork & { seconds: number }) => {
  const key = JSON.stringify({ ...work, seconds: 0 });
  const table = tableOf(work.precision);
  const pass =
    prepared.get(key) ??
    (work.kind === "lookup" ? lookup(table, work.length) : update(table, rules[work.rule]));
  prepared.set(key, pass);
  parentPort?.postMessage(fastest(pass.work, work.seconds, pass.run));
});

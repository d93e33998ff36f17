// Decay of all rows in closed form: it equals a dense pass over the table after each step, and has
// the same bits wherever the rows lie.

import test from "ava";
import {
  type SparseOptimizerOptions,
  sparseOptimizerOptions,
} from "../../../src/embedding/tables/options.ts";
import { checkShares } from "../../../src/embedding/tables/row-decay.ts";
import { rateOf } from "../../../src/embedding/tables/row-rule.ts";
import { InvalidOptionError } from "../../../src/errors/errors.ts";
import { modelOptions } from "../../../src/model/options.ts";
import { randomBatch } from "../../helpers/batches/random-batch.ts";
import type { LocalDevices } from "../../helpers/devices/local-devices.ts";
import { idsMax, isSameAnywhere, rows, startTables } from "./every-row.ts";

const steps = 40;
const l2 = 0.2;
const schedule = { kind: "cosine", warmUpSteps: 4, steps: 30, to: 0.1 } as const;

const sgd: SparseOptimizerOptions = { kind: "sgd", learningRate: 0.3, schedule };
const kinds: readonly SparseOptimizerOptions[] = [
  sgd,
  { kind: "adagrad", learningRate: 0.1 },
  { kind: "rowWiseAdagrad", learningRate: 0.1, schedule },
  { kind: "adam", learningRate: 0.02 },
  { kind: "partialRowWiseAdam", learningRate: 0.02 },
];

/** Batch `step`; the last rows of each table are in no batch. */
function batchOf(step: number, all = false) {
  const drawn = all ? rows : rows.map((count) => count - 3);
  return randomBatch({ rows: drawn, idsMin: 0, idsMax, dense: 3 }, step, 12);
}

/**
 * Runs `work`, and then a pass over all rows, which subtracts a share of the weights from before
 * `work`.
 */
async function withDensePass(
  { states }: LocalDevices,
  share: number,
  work: () => Promise<unknown>,
) {
  const all = states.flatMap(({ slab, kernels }) => slab.rowsOf.map((own) => ({ kernels, own })));
  const before = all.map(({ kernels, own }) => kernels.readRows(own, 0, own.rows).slice());
  await work();
  for (const [i, { kernels, own }] of all.entries()) {
    const now = kernels.readRows(own, 0, own.rows);
    kernels.writeRows(
      own,
      0,
      now.map((weight, at) => weight - share * (before[i]?.[at] ?? 0)),
    );
  }
}

for (const sparse of kinds) {
  test(`rows with a shared decay equal those of a dense pass in each step: ${sparse.kind}`, async (t) => {
    const decayed = startTables({ sparse, table: { l2, l2Scope: "decayed" } });
    const dense = startTables({ sparse });
    const plain = startTables({ sparse });
    const optimizer = sparseOptimizerOptions.parse(sparse);
    for (let step = 0; step < steps; step++) {
      await decayed.train(batchOf(step), step);
      const share = rateOf(optimizer, { step, plateau: 1 }) * l2;
      await withDensePass(dense, share, () => dense.train(batchOf(step), step));
      await plain.train(batchOf(step), step);
    }
    const scored = batchOf(99, true);
    const [own, expected, without] = [
      await decayed.score(scored),
      await dense.score(scored),
      await plain.score(scored),
    ];
    const distance = (of: Float32Array) =>
      Math.max(...of.map((x, i) => Math.abs(x - (own[i] ?? 0))));
    t.true(distance(expected) < 1e-5, `${distance(expected)}`);
    t.true(distance(without) > 1e-3, `${distance(without)}`);
  });
}

test("under SGD, the shared decay equals the L2 penalty over the whole table", async (t) => {
  const decayed = startTables({ sparse: sgd, table: { l2, l2Scope: "decayed" } });
  const table = { l2, l2Scope: "table", sharding: "data-parallel" } as const;
  const dense = startTables({ sparse: sgd, table });
  for (let step = 0; step < steps; step++) {
    const loss = await decayed.train(batchOf(step), step);
    t.true(Math.abs(loss - (await dense.train(batchOf(step), step))) < 1e-5, `step ${step}`);
  }
});

test("rows with decay have the same bits on 1 to 3 devices, anywhere, on both kernels", async (t) => {
  for (const native of [false, true]) {
    await isSameAnywhere(t, async ({ table, ...on }) => {
      const decayed = { l2, l2Scope: "decayed", ...table } as const;
      const local = startTables({ ...on, native, sparse: sgd, table: decayed });
      for (let step = 0; step < 6; step++) await local.train(batchOf(step), step);
      return { scores: [...(await local.score(batchOf(9, true)))], digest: await local.digest() };
    });
  }
});

test("a decay that would leave the range of float32 is refused", (t) => {
  const { tables } = modelOptions.parse({
    ...{ kind: "dlrm", dense: 0, bottom: [], top: [1] },
    tables: [
      { name: "a", rows: 9, dim: 4, l2: 1 },
      { name: "b", rows: 9, dim: 4, l2: 1, l2Scope: "decayed" },
    ],
  });
  const optimizer = sparseOptimizerOptions.parse({ kind: "sgd", learningRate: 0.1 });
  t.notThrows(() => checkShares(optimizer, tables, 500));
  const error = t.throws(() => checkShares(optimizer, tables, 600), {
    instanceOf: InvalidOptionError,
  });
  t.is(error?.option, "model.tables[1].l2");
  t.regex(
    error?.message ?? "",
    /over the 600 steps of the run, got 1, which leaves 3\.\de-28; lower/,
  );
});

// The moving average (EMA) of rows: it equals that of a dense pass over all rows after each step,
// and PyTorch's AveragedModel, and has the same bits wherever the rows lie.

import { readFileSync } from "node:fs";
import test from "ava";
import {
  type SparseOptimizerOptions,
  sparseOptimizerOptions,
} from "../../../src/embedding/tables/options.ts";
import { rowRuleOf } from "../../../src/embedding/tables/row-rule.ts";
import { checkAveragedSteps } from "../../../src/embedding/tables/row-state.ts";
import { InvalidOptionError } from "../../../src/errors/errors.ts";
import { type Kernels, stateWidth } from "../../../src/kernels/contract/kernels.ts";
import { lagShare } from "../../../src/kernels/contract/row-average.ts";
import { slicesOf } from "../../../src/kernels/contract/slices.ts";
import { openKernels } from "../../../src/kernels/index.ts";
import { createReference } from "../../../src/kernels/reference/reference.ts";
import { goldenFolder } from "../../helpers/batches/golden.ts";
import { randomBatch } from "../../helpers/batches/random-batch.ts";
import type { LocalDevices } from "../../helpers/devices/local-devices.ts";
import { someOrAll } from "../../helpers/thinned.ts";
import { idsMax, isSameAnywhere, rows, startTables } from "./every-row.ts";

const ema = { decay: 0.97 };

const kinds: readonly SparseOptimizerOptions[] = [
  { kind: "sgd", learningRate: 0.3 },
  { kind: "adagrad", learningRate: 0.1, initialAccumulator: 0.1 },
  { kind: "rowWiseAdagrad", learningRate: 0.1, initialAccumulator: 0.1 },
  { kind: "adam", learningRate: 0.02 },
  { kind: "partialRowWiseAdam", learningRate: 0.02 },
  { kind: "lamb", learningRate: 0.02 },
  { kind: "partialRowWiseLamb", learningRate: 0.02 },
  { kind: "ftrl", learningRate: 0.1 },
];

/**
 * Batch `step`; the last rows of each table are in no batch, and half of the rows only in every
 * ninth.
 */
function batchOf(step: number, all = false) {
  const drawn = all ? rows : rows.map((count) => (step % 9 === 0 ? count - 3 : count >> 1));
  return randomBatch({ rows: drawn, idsMin: 0, idsMax, dense: 3 }, step, 12);
}

function weightsIn({ states }: LocalDevices): Float32Array[] {
  return states.flatMap(({ slab, kernels }) =>
    slab.rowsOf.map((own) => kernels.readRows(own, 0, own.rows)),
  );
}

/** Replaces the weights of all rows. */
function putWeights({ states }: LocalDevices, weights: readonly Float32Array[]): void {
  const all = states.flatMap(({ slab, kernels }) => slab.rowsOf.map((own) => ({ kernels, own })));
  for (const [i, { kernels, own }] of all.entries()) {
    kernels.writeRows(own, 0, weights[i] ?? new Float32Array());
  }
}

const distanceOf = (a: Float32Array, b: Float32Array) =>
  Math.max(...a.map((x, i) => Math.abs(x - (b[i] ?? Number.NaN))));

for (const sparse of kinds) {
  test(`row averages equal those of a dense pass after each step: ${sparse.kind}`, async (t) => {
    const averaged = startTables({ sparse: { ...sparse, ema } });
    const plain = startTables({ sparse });
    let averages: Float64Array[] = [];
    for (let step = 0; step < 40; step++) {
      const loss = await averaged.train(batchOf(step), step);
      t.is(await plain.train(batchOf(step), step), loss, "an average changes no training");
      averages = weightsIn(plain).map((weights, i) =>
        Float64Array.from(weights, (w, at) => {
          const before = averages[i]?.[at];
          return before === undefined ? w : ema.decay * before + (1 - ema.decay) * w;
        }),
      );
    }
    const scored = batchOf(99, true);
    const own = await averaged.score(scored);
    const weights = weightsIn(plain);
    const without = await plain.score(scored);
    putWeights(
      plain,
      averages.map((values) => Float32Array.from(values)),
    );
    const distance = distanceOf(own, await plain.score(scored));
    t.true(distance < 2e-6, `${distance}`);
    t.true(distanceOf(own, without) > 1e-3, `${distanceOf(own, without)}`);
    t.deepEqual(weightsIn(averaged), weights, "an evaluation changes no weight");
  });
}

test("rows with averages have the same bits on 1 to 3 devices, anywhere, on both kernels", async (t) => {
  const sparse = {
    kind: "rowWiseAdagrad",
    learningRate: 0.1,
    initialAccumulator: 0.1,
    ema,
  } as const;
  const all = [false, true].flatMap((native) =>
    (["float32", "int8"] as const).map((precision) => ({ native, precision })),
  );
  const some = all.filter(({ native, precision }) => native === (precision === "float32"));
  for (const { native, precision } of someOrAll("kernels and precisions of averages", some, all)) {
    await isSameAnywhere(t, async ({ table, ...on }) => {
      const local = startTables({ ...on, native, sparse, table: { ...table, precision } });
      for (let step = 0; step < 12; step++) await local.train(batchOf(step), step);
      return { scores: [...(await local.score(batchOf(9, true)))], digest: await local.digest() };
    });
  }
});

test("the decay of an untouched row is a power, computed by squaring", (t) => {
  t.is(lagShare({ decay: 0.5, steps: 12 }, 2), 2 ** -10);
  t.is(lagShare({ decay: 0.9, steps: 7 }, 7), 1);
  const square = 0.9 * 0.9;
  t.is(lagShare({ decay: 0.9, steps: 9 }, 4), 0.9 * (square * square));
  t.is(lagShare({ decay: 0.999, steps: 2 ** 24 }, 0), 0);
});

test("a run with more steps than a row's counter holds is refused", (t) => {
  const optimizer = sparseOptimizerOptions.parse({ kind: "sgd", ema: {} });
  t.notThrows(() => checkAveragedSteps(optimizer, 2 ** 24));
  t.notThrows(() => checkAveragedSteps(sparseOptimizerOptions.parse({ kind: "sgd" }), 2 ** 25));
  const error = t.throws(() => checkAveragedSteps(optimizer, 2 ** 24 + 1), {
    instanceOf: InvalidOptionError,
  });
  t.is(error?.option, "optimizer.sparse.ema");
  t.regex(
    error?.message ?? "",
    /16777216 steps at most, as each row counts .* got 16777217; leave/,
  );
});

// PyTorch ----

interface Golden {
  readonly rows: number;
  readonly dim: number;
  readonly decay: number;
  readonly start: readonly number[];
  readonly ids: readonly (readonly number[])[];
  readonly gradients: readonly (readonly number[])[];
  readonly runs: Readonly<
    Record<string, { readonly averages: Record<string, number[]>; readonly weights: number[] }>
  >;
}

const golden = JSON.parse(readFileSync(`${goldenFolder}/averages/averages.json`, "utf8")) as Golden;

const started: readonly [string, () => Kernels][] = [
  ["reference", createReference],
  ["native", () => openKernels("auto")],
];
for (const [name, open] of started) {
  test(`row averages equal those of PyTorch's AveragedModel: ${name}`, (t) => {
    const { rows, dim, decay } = golden;
    for (const kind of ["sgd", "adagrad"] as const) {
      const kernels = open();
      const own = { kind, learningRate: 0.1, ema: { decay } };
      const optimizer = sparseOptimizerOptions.parse(
        kind === "sgd" ? own : { ...own, epsilon: 1e-3 },
      );
      const width = stateWidth(kind, dim, true);
      const shape = { rows, dim, pooling: "sum", rowBlocks: 1, averaged: true } as const;
      const table = kernels.rows({ ...shape, stateWidth: width });
      kernels.writeRows(table, 0, Float32Array.from(golden.start));
      const run = golden.runs[kind];
      const all = {
        ...{ tables: 1, samples: rows },
        offsets: Int32Array.from({ length: rows + 1 }, (_, i) => i),
        ids: Int32Array.from({ length: rows }, (_, i) => i),
      };
      const shown = kernels.tensor([rows, dim]);
      for (const [step, ids] of golden.ids.entries()) {
        const samples = ids.length;
        const offsets = Int32Array.from({ length: samples + 1 }, (_, i) => i);
        const bags = { tables: 1, samples, offsets, ids: Int32Array.from(ids) };
        const d = kernels.tensor([samples, dim]);
        kernels.write(d, Float32Array.from(golden.gradients[step] ?? []));
        const rule = rowRuleOf(optimizer, 0, { step, plateau: 1 });
        t.is(kernels.updateRows([table], bags, d, slicesOf(0, 1, 1, samples), [rule]), -1);
        const expected = run?.averages[step + 1];
        if (expected === undefined) continue;
        kernels.pool(shown, [table], all, 0, rows, { decay, steps: step + 1 });
        const distance = distanceOf(kernels.read(shown), Float32Array.from(expected));
        t.true(distance < 1e-6, `${kind}, step ${step}: ${distance}`);
      }
      const weights = Float32Array.from(run?.weights ?? []);
      t.true(distanceOf(kernels.readRows(table, 0, rows), weights) < 1e-6);
    }
  });
}

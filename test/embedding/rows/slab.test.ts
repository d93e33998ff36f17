// Rows in device memory: how optimizers update them, by PyTorch's definitions written out in
// float64, and how they are saved to a checkpoint and restored.

import test from "ava";
import { rowHashing } from "../../../src/embedding/rows/digest.ts";
import { createSlab, type SlabShard } from "../../../src/embedding/rows/slab.ts";
import type { SparseOptimizerOptions } from "../../../src/embedding/tables/options.ts";
import {
  sparseOptimizerOptions,
  type TableSpec,
  tableOptions,
} from "../../../src/embedding/tables/options.ts";
import { adamNumbersOf, rowRuleOf } from "../../../src/embedding/tables/row-rule.ts";
import { shardsOf } from "../../../src/embedding/tables/shards.ts";
import { slicesOf } from "../../../src/kernels/contract/slices.ts";
import { valuesOf } from "../../../src/kernels/reference/memory.ts";
import { createReference } from "../../../src/kernels/reference/reference.ts";
import { loadAddon } from "../../../src/ports/addon.ts";
import { keyOf, RandomStream } from "../../../src/ports/random.ts";
import { allOf } from "../../helpers/devices/parts.ts";

const dim = 3;
const rate = { learningRate: 0.1 };

/**
 * Sample 0 looks up row 2 twice and row 0; sample 1 row 2 again; sample 2 nothing; sample 3 row 5.
 */
const bags = {
  tables: 1,
  samples: 4,
  offsets: Int32Array.of(0, 3, 4, 4, 5),
  ids: Int32Array.of(2, 0, 2, 2, 5),
};
const dPooled = [1, -2, 0.5, 0.25, 4, 0, 9, 9, 9, -1, 1, 1];

function startSlab(options: {
  optimizer: SparseOptimizerOptions;
  pooling?: "sum" | "mean";
  precision?: "float32" | "float64";
  rows?: number;
}) {
  const kernels = createReference(options.precision ?? "float64");
  const { rows = 6, pooling = "sum" } = options;
  const specs = [
    tableOptions.parse({ name: "other", rows: 2, dim }),
    tableOptions.parse({ name: "a", rows, dim, pooling, initScale: 0.5 }),
  ];
  const optimizer = sparseOptimizerOptions.parse(options.optimizer);
  return {
    kernels,
    optimizer,
    slab: createSlab({ kernels, specs, shards: shardsOn(specs), optimizer, key: keyOf(7) }),
  };
}

/** A shard with all rows of the second table. */
function shardsOn(specs: readonly TableSpec[]): SlabShard[] {
  const tile = { firstBlock: 0, blocks: 1, firstQuantum: 0, quanta: 1 };
  const place = { scheme: "table-wise" as const, tier: "memory" as const, device: 0 };
  const shards = specs.map(({ name }) => ({ table: name, ...place, ...tile }));
  const [, own] = shardsOf(specs, { devices: { hosts: 1, perHost: 1 }, shards });
  const lookups = specs.slice(1).map(({ pooling }) => ({ pooling }));
  return own === undefined ? [] : [{ ...own, lookups }];
}

/** The gradient of a row, added up by hand. */
function gradientOf(row: number, pooling: "sum" | "mean"): number[] {
  return Array.from({ length: dim }, (_, c) => {
    let sum = 0;
    for (let sample = 0; sample < bags.samples; sample++) {
      const ids = bags.ids.subarray(bags.offsets[sample], bags.offsets[sample + 1]);
      const times = ids.filter((id) => id === row).length;
      sum +=
        (times * (dPooled[sample * dim + c] ?? 0)) / (pooling === "mean" ? ids.length || 1 : 1);
    }
    return sum;
  });
}

type Formula = (w: readonly number[], g: readonly number[], steps: number) => number[];

const adagradBy =
  (square: (g: readonly number[], c: number) => number): Formula =>
  (w, g, steps) =>
    w.map((start, c) => {
      let [now, sum] = [start, 0.2];
      for (let step = 0; step < steps; step++) {
        sum += square(g, c);
        now -= (0.1 * (g[c] ?? 0)) / (Math.sqrt(sum) + 1e-3);
      }
      return now;
    });

const adagrad = { ...rate, epsilon: 1e-3, initialAccumulator: 0.2 };
const cases: readonly [SparseOptimizerOptions, Formula][] = [
  [{ kind: "sgd", ...rate }, (w, g, steps) => w.map((one, c) => one - steps * 0.1 * (g[c] ?? 0))],
  [{ kind: "adagrad", ...adagrad }, adagradBy((g, c) => (g[c] ?? 0) ** 2)],
  [
    { kind: "rowWiseAdagrad", ...adagrad },
    adagradBy((g) => g.reduce((sum, one) => sum + one * one, 0) / dim),
  ],
  [
    { kind: "adam", ...rate, beta1: 0.8, beta2: 0.9, epsilon: 1e-3 },
    (w, g, steps) =>
      w.map((start, c) => {
        let [now, m, v] = [start, 0, 0];
        for (let step = 1; step <= steps; step++) {
          m = 0.8 * m + 0.2 * (g[c] ?? 0);
          v = 0.9 * v + 0.1 * (g[c] ?? 0) ** 2;
          now -= (0.1 * (m / (1 - 0.8 ** step))) / (Math.sqrt(v / (1 - 0.9 ** step)) + 1e-3);
        }
        return now;
      }),
  ],
];

for (const pooling of ["sum", "mean"] as const) {
  for (const [options, formula] of cases) {
    test(`${options.kind} updates each looked-up row once, repeated ids summed (${pooling})`, async (t) => {
      const { kernels, slab, optimizer } = startSlab({ optimizer: options, pooling });
      const weights = valuesOf(slab.rowsOf[0]?.weights ?? kernels.tensor([0]));
      const before = [...weights];
      const d = kernels.tensor([4, dim]);
      valuesOf(d).set(dPooled);
      for (let step = 0; step < 3; step++) {
        slab.update(bags, d, slicesOf(0, 2, 2, 4), [rowRuleOf(optimizer, 0, { step, plateau: 1 })]);
      }
      for (let row = 0; row < 6; row++) {
        const start = before.slice(row * dim, (row + 1) * dim);
        const isTouched = [0, 2, 5].includes(row);
        const expected = isTouched ? formula(start, gradientOf(row, pooling), 3) : start;
        for (const [c, value] of expected.entries()) {
          const actual = weights[row * dim + c] ?? Number.NaN;
          t.true(Math.abs(actual - value) < 1e-12, `row ${row}, ${c}: ${actual}, not ${value}`);
        }
      }
      t.deepEqual(
        (await allOf(slab.records(0))).flatMap((chunk) => [...chunk.rows]),
        [0, 2, 5],
      );
    });
  }
}

test("L2 applies to the rows of the batch, and to no other", (t) => {
  const { kernels, slab, optimizer } = startSlab({ optimizer: { kind: "sgd", ...rate } });
  const weights = valuesOf(slab.rowsOf[0]?.weights ?? kernels.tensor([0]));
  const before = [...weights];
  const zero = kernels.tensor([4, dim]);
  slab.update(bags, zero, slicesOf(0, 2, 2, 4), [
    rowRuleOf(optimizer, 0.5, { step: 0, plateau: 1 }),
  ]);
  for (const [i, start] of before.entries()) {
    const isTouched = [0, 2, 5].includes(Math.floor(i / dim));
    const expected = isTouched ? start - 0.1 * 0.5 * start : start;
    t.true(Math.abs((weights[i] ?? 0) - expected) < 1e-12);
  }
});

test("the two-phase update gives the bits of one phase, where no row is split", async (t) => {
  const optimizer = { kind: "rowWiseAdagrad" as const, ...adagrad };
  const after = [false, true].map((inTwoPhases) => {
    const subject = startSlab({ optimizer, precision: "float32" });
    const { kernels, slab } = subject;
    const d = kernels.tensor([4, dim]);
    kernels.write(d, Float32Array.from(dPooled));
    const slices = slicesOf(0, 2, 2, 4);
    const rules = [rowRuleOf(subject.optimizer, 0, { step: 0, plateau: 1 })];
    const squares = slab.squares({ first: 0, count: 1 }, bags, d, slices, rules);
    const means = kernels.rowMeans(squares, [1], dim);
    slab.update(bags, d, slices, rules, inTwoPhases ? [{ means }] : undefined);
    return allOf(slab.records(0));
  });
  t.deepEqual(await after[0], await after[1]);
});

test("initialised rows are saved and restored, and no other row is", async (t) => {
  const optimizer = { kind: "adam" as const };
  const rows = 9000; // Several chunks.
  const first = startSlab({ optimizer, precision: "float32", rows });
  const ids = Int32Array.of(0, 17, 35, 4095, 4096, 4097, 8999); // Gaps within a run, and between.
  const samples = ids.length;
  const offsets = Int32Array.from({ length: samples + 1 }, (_, i) => i);
  const lookups = { tables: 1, samples, offsets, ids };
  const d = first.kernels.tensor([samples, dim]);
  first.kernels.fill(d, 0.5);
  const rule = rowRuleOf(first.optimizer, 0, { step: 0, plateau: 1 });
  first.slab.update(lookups, d, slicesOf(0, 1, 1, samples), [rule]);
  const records = await allOf(first.slab.records(0));
  t.deepEqual(
    records.flatMap((chunk) => [...chunk.rows]),
    [...ids],
  );
  const second = startSlab({ optimizer, precision: "float32", rows });
  const [extent] = second.slab.shards;
  if (extent === undefined) return t.fail();
  for (const chunk of records) await second.slab.restore(0, extent, chunk, false);
  t.deepEqual(await allOf(second.slab.records(0)), records);
  const weights = (slab: typeof first) => slab.kernels.read(slab.slab.rowsOf[0]?.weights ?? d);
  t.deepEqual(weights(second), weights(first));
});

test("the addon's hashes of rows are those of the definition", (t) => {
  const random = new RandomStream(5, 1);
  for (const [columns, dim, perElement, perRow] of [
    [3, 3, 0, 0],
    [64, 64, 0, 1],
    [40, 72, 1, 2],
    [96, 96, 2, 1],
  ] as const) {
    const shard = { firstQuantum: 1, quanta: Math.ceil(columns / 32), columns };
    const [own, plain] = [loadAddon(), undefined].map((addon) =>
      rowHashing(shard, dim, { perElement, perRow }, addon),
    );
    if (own === undefined || plain === undefined) throw new Error("There are two");
    const n = 9;
    const floats = (count: number) =>
      new Float32Array(Uint32Array.from({ length: count }, () => random.word()).buffer);
    const rows = Int32Array.from({ length: n }, () => random.word() & 0x7fff_ffff);
    const width = perElement * columns + perRow;
    const records = { rows, weights: floats(n * columns), state: floats(n * width) };
    for (const wanted of [undefined, Uint8Array.from(rows, (row) => row & 1)]) {
      const asked = (all: Uint32Array) => {
        const one = (i: number) => [...all.subarray(i * own.words, (i + 1) * own.words)];
        return Array.from(rows, (_, i) => (wanted?.[i] === 0 ? [] : one(i)));
      };
      const expected = asked(plain.all(records, wanted));
      t.deepEqual(asked(own.all(records, wanted)), expected);
      const each = Array.from(rows, (_, i) => (wanted?.[i] === 0 ? [] : [...plain.of(records, i)]));
      t.deepEqual(expected, each);
    }
  }
});

test("a row's initial value depends on table, row and seed, within the table's scale", (t) => {
  const make = () => startSlab({ optimizer: { kind: "sgd" }, precision: "float32" });
  const read = ({ kernels, slab }: ReturnType<typeof make>) => [
    ...kernels.read(slab.rowsOf[0]?.weights ?? kernels.tensor([0])),
  ];
  const values = read(make());
  t.deepEqual(read(make()), values);
  t.true(values.every((value) => Math.abs(value) <= 0.5));
  t.true(values.length > 0 && new Set(values).size === values.length);
});

test("Adam's bias corrections are powers by squaring, equal on every machine", (t) => {
  const optimizer = sparseOptimizerOptions.parse({ kind: "adam", beta1: 0.5, beta2: 0.9 });
  if (optimizer.kind !== "adam") throw new Error("The optimizer is another one");
  t.is(adamNumbersOf(optimizer, { step: 9, plateau: 1 }).correction1, 1 - 2 ** -10);
  t.true(
    Math.abs(adamNumbersOf(optimizer, { step: 136, plateau: 1 }).correction2 - (1 - 0.9 ** 137)) <
      1e-15,
  );
});

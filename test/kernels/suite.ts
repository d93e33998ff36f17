// One suite for every implementation of the kernels: small cases computed by hand, and the bitwise
// laws, which hold within one implementation.

import test, { type ExecutionContext } from "ava";
import {
  type Bags,
  type DensePrecision,
  type Kernels,
  type Rows,
  type Tensor,
  usualLossTerm,
} from "../../src/kernels/contract/kernels.ts";
import { sliceStart, slicesOf, subtreesOf } from "../../src/kernels/contract/slices.ts";
import { RandomStream } from "../../src/ports/random.ts";
import { sameValues } from "../helpers/same-values.ts";
import { rounds } from "../helpers/thinned.ts";
import { bfloat16ByHand } from "./bfloat16-cases.ts";
import { blockCases } from "./blocks/block-cases.ts";
import { caches } from "./cache-cases.ts";
import { type Cases, list, lookupsAt, of, random, smallTable } from "./cases.ts";
import { largest } from "./largest-cases.ts";
import { manyTables } from "./many-tables-cases.ts";
import { records } from "./record-cases.ts";
import { rulesByHand } from "./rule-cases.ts";
import { embeddingProblem, ruleOf, stateOf } from "./scenarios.ts";
import { sharedTables } from "./shared-cases.ts";
import { tiles } from "./tile-cases.ts";
import { wideIds } from "./wide-id-cases.ts";

/** Opens the kernels under test; undefined if unavailable, after logging why. */
export type Open = (t: ExecutionContext) => Kernels | undefined;

/** Registers the suite for the kernels that `open` gives. */
export function kernelSuite(name: string, open: Open): void {
  const register = (title: string, body: (t: ExecutionContext, kernels: Kernels) => void): void => {
    test(`${name}: ${title}`, (t) => {
      const kernels = open(t);
      if (kernels !== undefined) body(t, kernels);
    });
  };
  const all = [byHand, rulesByHand, sharedTables, bfloat16ByHand, byBit, blockCases, wideIds];
  for (const cases of [...all, tiles, manyTables, caches, records, largest, refusals]) {
    for (const [title, body] of Object.entries(cases)) register(title, body);
  }
}

const byHand: Cases = {
  "a layer starts from its bias and cuts at zero": (t, k) => {
    const x = of(k, [2, 3], [1, 2, 3, -1, 0, 1]);
    const w = of(k, [2, 3], [1, 1, 1, -1, 2, 0]);
    const out = k.tensor([2, 2]);
    k.linear(out, x, w, of(k, [2], [0.5, -4]), false);
    t.deepEqual(list(k, out), [6.5, -1, 0.5, -3]);
    k.linear(out, x, w, of(k, [2], [0.5, -4]), true);
    t.deepEqual(list(k, out), [6.5, 0, 0.5, 0]);
    const d = of(k, [2, 2], [1, 2, 3, 4]);
    k.dRelu(d, out);
    t.deepEqual(list(k, d), [1, 0, 3, 0]);
    const dX = k.tensor([2, 3]);
    k.dLinearInput(dX, of(k, [2, 2], [1, 2, 0, -1]), w);
    t.deepEqual(list(k, dX), [-1, 5, 1, 1, -2, 0]);
    const above = of(k, [2, 3], [0, 1, -1, Number.NaN, 1, 1]);
    k.dLinearInput(dX, of(k, [2, 2], [1, 2, 0, -1]), w, undefined, [], above);
    t.deepEqual(list(k, dX), [0, 5, 0, 0, -2, 0]);
  },

  "a layer hands a number that is none on, instead of cutting it at zero": (t, k) => {
    const out = k.tensor([1, 1]);
    k.linear(out, of(k, [1, 1], [Number.NaN]), of(k, [1, 1], [1]), k.tensor([1]), true);
    t.true(Number.isNaN(k.read(out)[0]));
  },

  "weight gradients are summed slice by slice, and only finished subtrees come out": (t, k) => {
    const x = of(k, [4, 1], [1, 2, 3, 4]);
    const d = of(k, [4, 1], [1, 10, 100, 1000]);
    const outputs = (): Tensor[] => [k.tensor([1, 1]), k.tensor([1, 1])];
    const [dW, dB] = [outputs(), [k.tensor([1]), k.tensor([1])]];
    // Slices 1 | 2,3 of a batch: slice 2 is empty.
    k.dLinearWeight(dW, dB, d, x, { first: 1, bounds: Int32Array.of(0, 2, 2, 4) });
    t.deepEqual(
      dW.map((p) => list(k, p)),
      [[21], [4300]],
    );
    t.deepEqual(
      dB.map((p) => list(k, p)),
      [[11], [1100]],
    );
  },

  "interaction is the copied features, then the dots below the diagonal": (t, k) => {
    const x = of(k, [1, 3, 2], [1, 2, 3, 4, 5, 6]);
    const out = k.tensor([1, 5]);
    k.interact(out, x, 1, true);
    t.deepEqual(list(k, out), [1, 2, 11, 17, 39]);
    const dX = k.tensor([1, 3, 2]);
    k.dInteract(dX, of(k, [1, 5], [1, 1, 1, 10, 100]), x, 1, true);
    t.deepEqual(list(k, dX), [54, 65, 501, 602, 310, 420]);
  },

  "the loss of a sure and right logit is small, and its gradient is the error": (t, k) => {
    const losses = new Float64Array(2);
    const d = k.tensor([2]);
    const slices = { first: 0, bounds: Int32Array.of(0, 1, 2) };
    k.loss(losses, d, of(k, [2, 1], [0, 800]), of(k, [2, 1], [1, 0]), [usualLossTerm], 2, slices);
    t.deepEqual([...losses], [Math.log(2), 800]);
    t.deepEqual(list(k, d), [-0.25, 0.5]);
  },

  "dropout keeps, scales and repeats itself on the gradient": (t, k) => {
    const x = of(k, [50, 4], new Array<number>(200).fill(1));
    k.dropout(x, [1, 2], 0x2000_0000, 7, 0, 0.5);
    const kept = list(k, x);
    t.true(kept.every((value) => value === 0 || value === 2));
    const share = kept.filter((value) => value === 2).length / kept.length;
    t.true(share > 0.35 && share < 0.65, `${share}`);
    const part = of(k, [10, 4], new Array<number>(40).fill(1));
    k.dropout(part, [1, 2], 0x2000_0000, 7, 30, 0.5);
    t.deepEqual(list(k, part), kept.slice(120, 160));
  },

  "an element of `uniform` depends on its index, not on where a call begins": (t, k) => {
    const all = k.tensor([300]);
    k.uniform(all, [5, 6], 9, 0, 1);
    const some = k.tensor([100]);
    k.uniform(some, [5, 6], 9, 101, 1);
    t.deepEqual(list(k, some), list(k, all).slice(101, 201));
    t.true(list(k, all).every((value) => value >= -1 && value < 1));
    t.true(new Set(list(k, all)).size > 290);
  },

  "pooling sums or averages a bag, and an empty bag is zero": (t, k) => {
    for (const rowBlocks of [1, 2, 4]) {
      const sum = smallTable(k, "sum", rowBlocks);
      const out = k.tensor([3, 2]);
      k.pool(out, [sum.rows], sum.bags, 0, 3);
      t.deepEqual(list(k, out), [0, 0, 9, 90, 1, 10]);
      const mean = smallTable(k, "mean", rowBlocks);
      const part = k.tensor([2, 2]);
      k.pool(part, [mean.rows], mean.bags, 1, 2);
      t.deepEqual(list(k, part), [2.25, 22.5, 1, 10]);
    }
  },

  "a pooled vector is the tree over row blocks, not the order of the bag": (t, k) => {
    const rows = k.rows({ rows: 4, dim: 1, pooling: "sum", rowBlocks: 2, stateWidth: 0 });
    k.write(rows.weights, Float32Array.of(1, 2 ** 24, 1, 0));
    const bags = {
      tables: 1,
      samples: 1,
      offsets: Int32Array.of(0, 3),
      ids: Int32Array.of(0, 2, 1),
    };
    const out = k.tensor([1, 1]);
    k.pool(out, [rows], bags, 0, 1);
    // In bag order (1 + 1) + 2^24 would be exact; in blocks (1 + 2^24) rounds, and so does the next
    // + 1.
    t.deepEqual(list(k, out), [2 ** 24]);
  },

  "a weight multiplies its row in the bag, and its share of the bag's gradient": (t, k) => {
    for (const rowBlocks of [1, 2]) {
      const { rows, bags } = smallTable(k, "mean", rowBlocks);
      const weighted = { ...bags, weights: Float32Array.of(1, 2, -1, 4, 0.5) };
      const out = k.tensor([3, 2]);
      k.pool(out, [rows], weighted, 0, 3);
      t.deepEqual(list(k, out), [0, 0, 2.5, 25, 0.5, 5]);
      const d = of(k, [3, 2], [100, 100, 4, 8, 4, 8]);
      const rule = { kind: "sgd", learningRate: 1, l2: 0, decay: 0 } as const;
      k.updateRows([rows], weighted, d, slicesOf(0, 2, 2, 3), [rule]);
      t.deepEqual(list(k, rows.weights), [1 - 4 - 2, 10 - 8 - 4, 1, 18, 3, 30, 3, 38]);
    }
  },

  "a row is updated once with the sum of its lookups, and only touched rows are": (t, k) => {
    const { rows, bags } = smallTable(k, "sum", 1);
    const d = of(k, [3, 2], [100, 100, 1, 2, 4, 8]);
    const slices = slicesOf(0, 2, 2, 3);
    k.updateRows([rows], bags, d, slices, [{ kind: "sgd", learningRate: 0.5, l2: 0, decay: 0 }]);
    t.deepEqual(list(k, rows.weights), [-1.5, 5, 1, 18, 3, 30, 3.5, 39]);
    t.deepEqual([...rows.touched], [1, 1, 0, 1]);
  },

  "columns, parts and copies move the elements they name": (t, k) => {
    const from = of(k, [2, 3], [1, 2, 3, 4, 5, 6]);
    const out = k.tensor([2, 2]);
    k.copyColumns(out, 0, from, 1, 2);
    t.deepEqual(list(k, out), [2, 3, 5, 6]);
    k.copy(k.part(from, 1, 1), of(k, [3], [7, 8, 9]));
    t.deepEqual(list(k, k.reshape(from, [2, 2], 2)), [3, 7, 8, 9]);
    const memory = new SharedArrayBuffer(24);
    k.fill(k.view(memory, 8, [2]), 5);
    t.deepEqual([...new Float32Array(memory)], [0, 0, 5, 5, 0, 0]);
  },
};

/** Runs `body` on enough random streams to cover the shapes. */
function repeat(body: (stream: RandomStream, seed: number) => void): void {
  for (let seed = 1; seed <= rounds("seeds of the laws of bits", 2, 8); seed++)
    body(new RandomStream(seed, 2), seed);
}

/** Like `repeat`, for layers in both precisions. */
function repeatLayer(body: (stream: RandomStream, precision: DensePrecision) => void): void {
  repeat((stream) => body(stream, "float32"));
  repeat((stream) => body(stream, "bfloat16"));
}

const byBit: Cases = {
  "a sample's outputs and input gradients do not depend on who is in the call": (t, k) => {
    repeatLayer((stream, precision) => {
      const shape = [1 + stream.below(60), 1 + stream.below(300), 1 + stream.below(70)] as const;
      const [samples, inputs, outputs] = shape;
      const x = random(k, stream, [samples, inputs]);
      const w = random(k, stream, [outputs, inputs]);
      const b = random(k, stream, [outputs]);
      const [out, dX] = [k.tensor([samples, outputs]), k.tensor([samples, inputs])];
      k.linear(out, x, w, b, true, precision);
      k.dLinearInput(dX, out, w, precision);
      const [first, count] = [stream.below(samples), 1];
      const [one, dOne] = [k.tensor([count, outputs]), k.tensor([count, inputs])];
      k.linear(one, k.part(x, first, count), w, b, true, precision);
      k.dLinearInput(dOne, one, w, precision);
      t.deepEqual(list(k, one), list(k, k.part(out, first, count)));
      t.deepEqual(list(k, dOne), list(k, k.part(dX, first, count)));
    });
  },

  "weight gradients have the same bits however slices lie on devices, in any subtrees": (t, k) => {
    repeatLayer((stream, precision) => {
      const slices = 8;
      const [samples, inputs] = [1 + stream.below(600), 1 + stream.below(40)];
      const outputs = 1 + stream.below(40);
      const x = random(k, stream, [samples, inputs]);
      const d = random(k, stream, [samples, outputs]);
      const results = [[8], [3, 5], [1, 4, 3], [8], [5, 3]].map((devices, i) => {
        const most = [8, 8, 8, 4, 1][i];
        const trees: { first: number; count: number }[] = [];
        const [dW, dB]: [Tensor[], Tensor[]] = [[], []];
        let first = 0;
        for (const count of devices) {
          const mine = subtreesOf(first, count, most);
          const [dWs, dBs] = [
            mine.map(() => k.tensor([outputs, inputs])),
            mine.map(() => k.tensor([outputs])),
          ];
          const start = sliceStart(first, slices, samples);
          const held = sliceStart(first + count, slices, samples) - start;
          const [part, dPart] = [k.part(x, start, held), k.part(d, start, held)];
          const own = { ...slicesOf(first, count, slices, samples), most };
          k.dLinearWeight(dWs, dBs, dPart, part, own, precision);
          trees.push(...mine);
          dW.push(...dWs);
          dB.push(...dBs);
          first += count;
        }
        const [sumW, sumB] = [k.tensor([outputs * inputs]), k.tensor([outputs])];
        k.foldSubtrees(sumW, dW, trees, slices);
        k.foldSubtrees(sumB, dB, trees, slices);
        return [list(k, sumW), list(k, sumB)];
      });
      for (const result of results) t.deepEqual(result, results[0]);
    });
  },

  "a pooled vector does not depend on who is in the call": (t, k) => {
    repeat((stream) => {
      const { tables, bags, columns } = embeddingProblem(k, stream);
      const all = k.tensor([bags.samples, columns]);
      k.pool(all, tables, bags, 0, bags.samples);
      const first = stream.below(bags.samples);
      const one = k.tensor([1, columns]);
      k.pool(one, tables, bags, first, 1);
      t.deepEqual(list(k, one), list(k, k.part(all, first, 1)));
    });
  },

  "dRows, foldSubtrees and applyRows give the bits of updateRows": (t, k) => {
    repeat((_, seed) => {
      const fused = embeddingProblem(k, new RandomStream(seed, 3));
      const split = embeddingProblem(k, new RandomStream(seed, 3));
      const { tables, firsts, bags, rules, columns } = split;
      const slices = 8;
      const d = random(k, new RandomStream(seed, 4), [bags.samples, columns]);
      k.updateRows(fused.tables, bags, d, slicesOf(0, slices, slices, bags.samples), rules);
      firsts.forEach((table) => {
        const rows = tables[table];
        if (rows === undefined) return;
        const [parts, masks, trees] = dRowsOfDevices(k, split, table, d, slices);
        const [sum, mask] = [k.tensor([rows.rows, rows.dim]), k.tensor([rows.rows])];
        k.foldSubtrees(sum, parts, trees, slices);
        k.foldSubtrees(mask, masks, trees, slices);
        const rule = rules[table] ?? ruleOf("sgd", 0);
        k.applyRows(rows, sum, mask, rule, false);
      });
      sameValues(t, stateOf(k, split), stateOf(k, fused));
    });
  },

  "an update whose squares travelled gives the bits of one that did not": (t, k) => {
    repeat((_, seed) => {
      const whole = embeddingProblem(k, new RandomStream(seed, 3));
      const phased = embeddingProblem(k, new RandomStream(seed, 3));
      const { tables, firsts, bags, rules, columns } = phased;
      const slices = slicesOf(0, 4, 4, bags.samples);
      const d = random(k, new RandomStream(seed, 4), [bags.samples, columns]);
      k.updateRows(whole.tables, bags, d, slices, rules);
      const means = tables.map((rows, table) => {
        if (!firsts.includes(table)) return undefined;
        const own = lookupsAt({ tables, bags, rules }, table);
        const squares = k.rowSquares(own.tables, own.bags, d, own.first, slices, own.rules);
        const quanta = Math.ceil(rows.dim / 32);
        const means = Float32Array.from({ length: squares.length / quanta }, (__, row) => {
          let sum = 0;
          for (let q = 0; q < quanta; q++)
            sum = Math.fround(sum + (squares[row * quanta + q] ?? 0));
          return sum / rows.dim;
        });
        sameValues(t, k.rowMeans([squares], [quanta], rows.dim), means);
        return { means };
      });
      k.updateRows(tables, bags, d, slices, rules, means);
      sameValues(t, stateOf(k, phased), stateOf(k, whole));
    });
  },
};

/** dRows of one table from two devices, which hold slices 0..2 and 3.. of the batch. */
function dRowsOfDevices(
  k: Kernels,
  problem: { tables: Rows[]; bags: Bags<Int32Array>; columns: number },
  table: number,
  d: Tensor,
  slices: number,
): [Tensor[], Tensor[], { first: number; count: number }[]] {
  const { tables, bags } = problem;
  const rows = tables[table];
  const [parts, masks]: [Tensor[], Tensor[]] = [[], []];
  const trees: { first: number; count: number }[] = [];
  for (const [first, count] of [
    [0, 3],
    [3, slices - 3],
  ] as const) {
    const mine = subtreesOf(first, count);
    const [dRows, counts] = [
      mine.map(() => k.tensor([rows?.rows ?? 0, rows?.dim ?? 0])),
      mine.map(() => k.tensor([rows?.rows ?? 0])),
    ];
    const start = sliceStart(first, slices, bags.samples);
    const held = sliceStart(first + count, slices, bags.samples) - start;
    const own = slicesOf(first, count, slices, bags.samples);
    const part = bagsOfSamples(bags, start, held);
    const { first: column, ...all } = lookupsAt({ tables, bags: part, rules: [] }, table);
    k.dRows(dRows, counts, all.tables, all.bags, k.part(d, start, held), column, own);
    parts.push(...dRows);
    masks.push(...counts);
    trees.push(...mine);
  }
  return [parts, masks, trees];
}

function bagsOfSamples(bags: Bags<Int32Array>, start: number, held: number): Bags {
  const offsets = [0];
  const [ids, weights]: [number[], number[]] = [[], []];
  for (let table = 0; table < bags.tables; table++) {
    for (let s = start; s < start + held; s++) {
      const bag = table * bags.samples + s;
      const own = [bags.offsets[bag], bags.offsets[bag + 1]] as const;
      ids.push(...bags.ids.subarray(...own));
      weights.push(...(bags.weights?.subarray(...own) ?? []));
      offsets.push(ids.length);
    }
  }
  return {
    tables: bags.tables,
    samples: held,
    offsets: Int32Array.from(offsets),
    ids: Int32Array.from(ids),
    ...(bags.weights === undefined ? {} : { weights: Float32Array.from(weights) }),
  };
}

const refusals: Cases = {
  "shapes that do not fit are refused before a kernel runs": (t, k) => {
    const w = k.tensor([2, 3]);
    t.throws(() => k.linear(k.tensor([1, 2]), k.tensor([1, 4]), w, k.tensor([2]), false));
    t.throws(() => k.linear(k.tensor([1, 3]), k.tensor([1, 3]), w, k.tensor([2]), false));
    t.throws(() => k.part(w, 1, 2));
    t.throws(() => k.view(new ArrayBuffer(8), 4, [2]));
    t.throws(() => k.foldSubtrees(w, [w], [{ first: 0, count: 1 }], 2));
    t.throws(() => k.interact(k.tensor([1, 3]), k.tensor([1, 3, 2]), 1, true));
    const { rows, bags } = smallTable(k, "sum", 1);
    t.throws(() => k.pool(k.tensor([4, 2]), [rows], bags, 0, 4));
    const unweighed = { ...bags, weights: Float32Array.of(1) };
    t.throws(() => k.pool(k.tensor([3, 2]), [rows], unweighed, 0, 3), { message: /a weight/ });
    t.throws(() => k.updateRows([rows], bags, k.tensor([3, 2]), slicesOf(0, 3, 3, 3), []));
    const slices = slicesOf(0, 2, 2, 3);
    const narrow = () => k.updateRows([rows], bags, k.tensor([3, 2]), slices, [ruleOf("adam", 0)]);
    t.throws(narrow, { message: /Expected 4 state floats a row for adam, got 1/ });
  },
};

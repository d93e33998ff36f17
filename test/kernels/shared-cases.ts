// Tables that several features look up, against their definition: one lookup whose samples are the
// samples of all features, slice by slice, lookup by lookup.

import {
  type Bags,
  type Kernels,
  type Pooling,
  type Rows,
  stateWidth,
  type Tensor,
  takesTrust,
} from "../../src/kernels/contract/kernels.ts";
import type { Precision } from "../../src/kernels/contract/precision.ts";
import { type Slices, slicesOf, subtreesOf } from "../../src/kernels/contract/slices.ts";
import { RandomStream } from "../../src/ports/random.ts";
import type { Cases } from "./cases.ts";
import { numbers, random } from "./cases.ts";
import { ruleKinds, ruleOf } from "./scenarios.ts";

const samples = 21;
const slices = slicesOf(0, 8, 8, samples);
const rowsOfTable = 9;
const poolings: readonly Pooling[] = ["sum", "mean", "sum"];
/**
 * Widths below, at and beyond those of SIMD vectors and quanta, for neighbouring tables of
 * different widths.
 */
const dims = [1, 4, 12, 16, 20, 32, 40, 64, 100];

interface Lookups {
  readonly bags: Bags<Int32Array>;
  readonly dPooled: Tensor;
}

/** Random bags of up to three ids, for each lookup; optionally with weights. */
function drawBags(stream: RandomStream, isWeighted: boolean): Bags<Int32Array> {
  const offsets = [0];
  const ids: number[] = [];
  for (let bag = 0; bag < poolings.length * samples; bag++) {
    for (let length = stream.below(4); length > 0; length--) ids.push(stream.below(rowsOfTable));
    offsets.push(ids.length);
  }
  const all = { tables: poolings.length, samples, offsets: Int32Array.from(offsets) };
  const weights = isWeighted ? numbers(stream, ids.length) : undefined;
  const bags = { ...all, ids: Int32Array.from(ids) };
  return weights === undefined ? bags : { ...bags, weights };
}

/** The single lookup of the definition: gradients of means are divided beforehand. */
function asOne(kernels: Kernels, { bags, dPooled }: Lookups, dim: number, of: Slices) {
  const d = kernels.read(dPooled);
  const width = d.length / samples;
  const [offsets, ids, weights, gradient] = [[0], [], [], []] as [
    number[],
    number[],
    number[],
    number[],
  ];
  const bounds = of.bounds.map((sample) => poolings.length * sample);
  for (let slice = 0; slice < of.bounds.length - 1; slice++) {
    for (const [lookup, pooling] of poolings.entries()) {
      for (let s = of.bounds[slice] ?? 0; s < (of.bounds[slice + 1] ?? 0); s++) {
        const bag = lookup * samples + s;
        const [from = 0, to = 0] = bags.offsets.subarray(bag, bag + 2);
        ids.push(...bags.ids.subarray(from, to));
        weights.push(...(bags.weights?.subarray(from, to) ?? []));
        offsets.push(ids.length);
        for (let c = 0; c < dim; c++) {
          const share = d[s * width + lookup * dim + c] ?? 0;
          const isShared = pooling === "mean" && to > from;
          gradient.push(isShared ? Math.fround(share / (to - from)) : share);
        }
      }
    }
  }
  const count = poolings.length * samples;
  const one = { tables: 1, samples: count, offsets: Int32Array.from(offsets) };
  const own = { ...one, ids: Int32Array.from(ids) };
  const all = bags.weights ? { ...own, weights: Float32Array.from(weights) } : own;
  const out = kernels.tensor([count, dim]);
  kernels.write(out, Float32Array.from(gradient));
  return { bags: all, dPooled: out, slices: { first: of.first, bounds } };
}

function bitsIn(kernels: Kernels, rows: Rows) {
  return [kernels.readRows(rows, 0, rows.rows), kernels.read(rows.state), rows.touched];
}

/** Cases of the kernels' suite. */
export const sharedTables: Cases = {
  "lookups in one table update it once, as one lookup of all their samples would": (t, k) => {
    const stream = new RandomStream(5, 5);
    for (const [i, kind] of [...ruleKinds, ...ruleKinds].entries()) {
      const dim = dims[i % dims.length] ?? 1;
      const precision: Precision = i % 4 === 3 && kind !== "momentum" ? "float16" : "float32";
      const shape = { rows: rowsOfTable, dim, rowBlocks: 1, stateWidth: stateWidth(kind, dim) };
      const [initial, state] = [numbers(stream, rowsOfTable * dim), numbers(stream, 4096)];
      const made = () => {
        const rows = k.rows({ ...shape, pooling: "sum", precision });
        k.writeRows(rows, 0, initial);
        k.write(rows.state, state.slice(0, k.read(rows.state).length).map(Math.abs));
        return rows;
      };
      const [rows, single] = [made(), made()];
      const shared = poolings.map((pooling) => ({ ...rows, pooling }));
      const rounding = { key: [1, 2] as const, purpose: 9, step: 1 };
      const clip = i % 3 === 1 ? { clip: 0.3 } : {};
      const rule = { ...ruleOf(kind, i % 2 === 0 ? 0 : 0.01), rounding, ...clip };
      const rules = shared.map(() => rule);
      const bags = drawBags(stream, i % 3 === 2);
      const dPooled = random(k, stream, [samples, poolings.length * dim]);
      const one = asOne(k, { bags, dPooled }, dim, slices);
      const title = `${kind}, ${dim} columns, ${precision}`;
      const squares = k.rowSquares(shared, bags, dPooled, 0, slices, rules);
      t.deepEqual(
        squares,
        k.rowSquares([single], one.bags, one.dPooled, 0, one.slices, [rule]),
        title,
      );
      if (takesTrust(kind)) {
        t.deepEqual(
          k.rowNorms(shared, bags, dPooled, 0, slices, rules),
          k.rowNorms([single], one.bags, one.dPooled, 0, one.slices, [rule]),
          title,
        );
      }
      t.is(k.updateRows(shared, bags, dPooled, slices, rules), -1);
      k.updateRows([single], one.bags, one.dPooled, one.slices, [rule]);
      t.deepEqual(bitsIn(k, rows), bitsIn(k, single), title);
    }
  },

  "lookups in one table have one dense gradient, subtree by subtree": (t, k) => {
    const stream = new RandomStream(6, 6);
    for (const dim of dims) {
      const rows = k.rows({ rows: rowsOfTable, dim, pooling: "sum", rowBlocks: 1, stateWidth: 0 });
      const shared = poolings.map((pooling) => ({ ...rows, pooling }));
      const bags = drawBags(stream, dim % 3 === 0);
      const dPooled = random(k, stream, [samples, poolings.length * dim]);
      const some = { ...slicesOf(0, 5, 5, samples), first: 2 };
      const one = asOne(k, { bags, dPooled }, dim, some);
      const trees = subtreesOf(2, 5);
      const gradients = ([tables, own, d, of]: readonly [Rows[], Bags, Tensor, Slices]) => {
        const dRows = trees.map(() => k.tensor([rowsOfTable, dim]));
        const counts = trees.map(() => k.tensor([rowsOfTable]));
        k.dRows(dRows, counts, tables, own, d, 0, of);
        return [...dRows, ...counts].map((tensor) => k.read(tensor));
      };
      const expected = gradients([[rows], one.bags, one.dPooled, one.slices]);
      t.deepEqual(gradients([shared, bags, dPooled, some]), expected, `${dim} columns`);
    }
  },

  "a neighbour that shares no rows stays a table of its own": (t, k) => {
    const shape = { rows: 2, dim: 2, pooling: "sum", rowBlocks: 1, stateWidth: 0 } as const;
    const [first, second] = [k.rows(shape), k.rows(shape)];
    const bags = {
      tables: 3,
      samples: 1,
      offsets: Int32Array.of(0, 1, 2, 3),
      ids: Int32Array.of(0, 0, 0),
    };
    const d = k.tensor([1, 6]);
    k.fill(d, 1);
    const rule = { ...ruleOf("sgd", 0), learningRate: 1 } as const;
    const rules = [rule, rule, rule];
    k.updateRows([first, first, second], bags, d, slicesOf(0, 1, 1, 1), rules);
    t.deepEqual([...k.readRows(first, 0, 2)], [-2, -2, 0, 0]);
    t.deepEqual([...k.readRows(second, 0, 2)], [-1, -1, 0, 0]);
  },
};

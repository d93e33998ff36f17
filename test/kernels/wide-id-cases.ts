// Cases of the kernels' suite: bags with 64-bit ids, and tables of more than 2^31 elements.

import { rowsMax, type Tensor } from "../../src/kernels/contract/kernels.ts";
import { slicesOf } from "../../src/kernels/contract/slices.ts";
import { RandomStream } from "../../src/ports/random.ts";
import { sameValues } from "../helpers/same-values.ts";
import { type Cases, list, lookupsAt, of, random, smallTable } from "./cases.ts";
import { embeddingProblem, ruleOf, stateOf, widened } from "./scenarios.ts";

/** Ids outside a table of four rows; the low half of most is a valid row. */
const strangers = [4n, -1n, 2n ** 32n, 2n ** 31n, 2n ** 63n - 1n, -(2n ** 63n), -(2n ** 32n) + 3n];

export const wideIds: Cases = {
  "64-bit ids give the bits of the same rows in 32": (t, k) => {
    for (let seed = 1; seed <= 3; seed++) {
      const [narrow, wide] = [false, true].map((isWide) => {
        const problem = embeddingProblem(k, new RandomStream(seed, 3));
        const { tables, rules, columns } = problem;
        const bags = isWide ? widened(problem.bags) : problem.bags;
        const d = random(k, new RandomStream(seed, 4), [bags.samples, columns]);
        const out = k.tensor([bags.samples, columns]);
        k.pool(out, tables, bags, 0, bags.samples);
        const slices = slicesOf(0, 4, 4, bags.samples);
        const dense = tables.map(({ rows, dim }, table) => {
          const [dRows, counts] = [[k.tensor([rows, dim])], [k.tensor([rows])]];
          const own = lookupsAt({ tables, bags, rules }, table);
          k.dRows(dRows, counts, own.tables, own.bags, d, own.first, slices);
          return [...dRows, ...counts].map((sum) => k.read(sum));
        });
        const squares = tables.map((_, i) => {
          const own = lookupsAt({ tables, bags, rules }, i);
          return k.rowSquares(own.tables, own.bags, d, own.first, slices, own.rules);
        });
        k.updateRows(tables, bags, d, slices, rules);
        return [k.read(out), dense, squares, stateOf(k, problem)];
      });
      sameValues(t, wide, narrow, `seed ${seed}`);
    }
  },

  "a 64-bit id that its table does not have is refused whole, and nothing moves": (t, k) => {
    const { rows, bags } = smallTable(k, "sum", 1);
    const slices = slicesOf(0, 2, 2, 3);
    const before = list(k, rows.weights);
    for (const id of strangers) {
      const ids = BigInt64Array.of(3n, 1n, 1n, id, 0n);
      const wide = { ...bags, ids };
      const d = of(k, [3, 2], [1, 2, 3, 4, 5, 6]);
      const rules = [ruleOf("rowWiseAdagrad", 0)];
      const calls: (() => unknown)[] = [
        () => k.pool(k.tensor([3, 2]), [rows], wide, 0, 3),
        () => k.updateRows([rows], wide, d, slices, rules),
        () => k.rowSquares([rows], wide, d, 0, slices, rules),
        () => k.dRows([k.tensor([4, 2])], [k.tensor([4])], [rows], wide, d, 0, slices),
      ];
      const message = `Expected id 3 of the bags, of table 0, to lie in 0..3, got ${id}`;
      for (const call of calls) t.throws(call, { instanceOf: RangeError, message });
      t.deepEqual(list(k, rows.weights), before);
    }
  },

  "a row is found where its first element lies beyond 2^31 of them": (t, k) => {
    // One byte per element, and memory of untouched rows is never allocated.
    const [count, dim] = [2 ** 26 + 2, 33];
    const plain = { pooling: "sum", rowBlocks: 1, stateWidth: 0 } as const;
    const rows = k.rows({ rows: count, dim, ...plain, precision: "int8" });
    k.writeRows(rows, count - 1, new Float32Array(dim).fill(0.5));
    const ids = BigInt64Array.of(BigInt(count - 1), 0n);
    const bags = { tables: 1, samples: 2, offsets: Int32Array.of(0, 1, 2), ids };
    const pooled = (): Tensor => {
      const out = k.tensor([2, dim]);
      k.pool(out, [rows], bags, 0, 2);
      return out;
    };
    const both = (first: number) => [
      ...new Array<number>(dim).fill(first),
      ...new Array<number>(dim).fill(0),
    ];
    t.deepEqual(list(k, pooled()), both(0.5));
    const d = k.tensor([2, dim]);
    k.fill(k.part(d, 0, 1), 1);
    const rounding = { key: [1, 2] as const, purpose: 3, step: 4 };
    const rule = { kind: "sgd", learningRate: 0.25, l2: 0, decay: 0, rounding } as const;
    k.updateRows([rows], bags, d, slicesOf(0, 1, 1, 2), [rule]);
    t.deepEqual(list(k, pooled()), both(0.25));
    t.is(rows.touched[count - 1], 1);
    t.throws(() => k.rows({ rows: rowsMax + 1, dim: 1, ...plain }), {
      message: `Expected at most ${rowsMax} rows, got ${rowsMax + 1}`,
    });
  },
};

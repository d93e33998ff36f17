// Cases of the kernels' suite: one call for many tables, many ranges of columns or some samples
// gives the results of a call for each; and collisions: bags with a row of another batch.

import { type Bags, takesMean } from "../../src/kernels/contract/kernels.ts";
import { slicesOf } from "../../src/kernels/contract/slices.ts";
import { RandomStream } from "../../src/ports/random.ts";
import { sameValues } from "../helpers/same-values.ts";
import { rounds } from "../helpers/thinned.ts";
import { type Cases, list, lookupsAt, random } from "./cases.ts";
import { embeddingProblem, stateOf, widened } from "./scenarios.ts";

export const manyTables: Cases = {
  "one call for many tables gives the sums, and keeps the order, of a call for each": (t, k) => {
    const problems = rounds("problems of many tables", 2, 12);
    for (let seed = 1; seed <= problems; seed++) {
      const twice = [0, 1].map(() => embeddingProblem(k, new RandomStream(seed, 3)));
      const [problem, other] = twice;
      if (problem === undefined || other === undefined) return t.fail();
      const { tables, firsts, rules, columns } = problem;
      const bags = seed % 3 === 0 ? widened(problem.bags) : problem.bags;
      const d = random(k, new RandomStream(seed, 4), [bags.samples, columns]);
      const slices = slicesOf(0, 4, 4, bags.samples);
      const counts = new Int32Array(tables.length);
      const order = { lookups: new Float64Array(bags.ids.length), ids: bags.ids };
      const all = k.rowSquares(tables, bags, d, 0, slices, rules, counts, order);
      const each = firsts.map((first) => {
        const own = lookupsAt({ tables, bags, rules }, first);
        return k.rowSquares(own.tables, own.bags, d, own.first, slices, own.rules);
      });
      sameValues(
        t,
        [...all],
        each.flatMap((own) => [...own]),
        `seed ${seed}`,
      );
      t.deepEqual(
        [...counts],
        [...tables.keys()].map((at) => each[firsts.indexOf(at)]?.length ?? 0),
      );
      const sums = tables.map((rows, at) => {
        const own = each[firsts.indexOf(at)];
        if (own === undefined || !takesMean(rules[at]?.kind ?? "sgd")) return undefined;
        return { means: k.rowMeans([own], [Math.ceil(rows.dim / 32)], rows.dim) };
      });
      k.updateRows(tables, bags, d, slices, rules, sums, order);
      k.updateRows(other.tables, bags, d, slices, rules);
      sameValues(t, stateOf(k, problem), stateOf(k, other));
      const stale = { ...order, ids: bags.ids.slice() };
      const update = () => k.updateRows(tables, bags, d, slices, rules, sums, stale);
      t.throws(update, { message: /the order of these bags/ });
    }
  },

  "ranges of columns that are copied together are those copied one by one": (t, k) => {
    for (let seed = 1; seed <= 6; seed++) {
      const stream = new RandomStream(seed, 9);
      const widths = Array.from({ length: 1 + stream.below(5) }, () => 1 + stream.below(70));
      const columns = widths.reduce((sum, width) => sum + width + 3, 0);
      const samples = 1 + stream.below(9);
      const from = random(k, stream, [samples, columns + 2]);
      const [out, expected] = [k.tensor([samples, columns]), k.tensor([samples, columns])];
      const runs = widths.flatMap((width, i) => {
        const first = widths.slice(0, i).reduce((sum, own) => sum + own + 3, 0);
        k.copyColumns(expected, first, from, first + 2, width);
        return [first, first + 2, width];
      });
      k.copyRuns(out, from, Int32Array.from(runs));
      t.deepEqual(list(k, out), list(k, expected));
      const message = /the columns of a range in out/;
      t.throws(() => k.copyRuns(out, from, Int32Array.of(columns, 0, 1)), { message });
    }
  },

  "vectors of some samples have the bits of these samples among all": (t, k) => {
    for (let seed = 0; seed < 8; seed++) {
      const stream = new RandomStream(31, seed, 0);
      const { tables, bags, columns } = embeddingProblem(k, stream);
      const all = k.tensor([bags.samples, columns]);
      k.pool(all, tables, bags, 0, bags.samples);
      const places = Int32Array.from({ length: 70 }, () => stream.below(bags.samples));
      const some = k.tensor([places.length, columns]);
      k.poolAt(some, tables, bags, places);
      const out = k.tensor([bags.samples, columns]);
      k.placeColumns(out, 0, some, 0, columns, places);
      for (const [i, place] of places.entries()) {
        const expected = list(k, k.part(all, place, 1));
        sameValues(t, list(k, k.part(some, i, 1)), expected);
        sameValues(t, list(k, k.part(out, place, 1)), expected);
      }
    }
  },

  "a bag collides exactly where it has a row of the other batch in the same table": (t, k) => {
    // The kernel marks rows in a bit set if the table is small, else in a hash table.
    for (const rows of [50, 3_000_000]) {
      const stream = new RandomStream(32, rows, 0);
      const own = k.rows({ rows, dim: 1, pooling: "sum", rowBlocks: 1, stateWidth: 0 });
      const other = k.rows({ rows, dim: 1, pooling: "sum", rowBlocks: 1, stateWidth: 0 });
      const tables = [own, own, other];
      const drawn = Int32Array.from({ length: 60 }, () => stream.below(rows));
      drawn.set([0, rows - 1]);
      const draw = (samples: number): Bags<Int32Array> => {
        const offsets = [0];
        const ids: number[] = [];
        for (let bag = 0; bag < tables.length * samples; bag++) {
          for (let length = stream.below(4); length > 0; length--)
            ids.push(drawn[stream.below(drawn.length)] ?? 0);
          offsets.push(ids.length);
        }
        const of = { tables: tables.length, samples, ids: Int32Array.from(ids) };
        return { ...of, offsets: Int32Array.from(offsets) };
      };
      const [next, current] = [draw(40), draw(9)];
      const idsOf = ({ offsets, ids }: Bags, from: number, to: number) => {
        return [...ids.subarray(offsets[from], offsets[to])];
      };
      const expected: number[] = [];
      for (let bag = 0; bag < 3 * 40; bag++) {
        const [from, to] = bag < 80 ? [0, 18] : [18, 27];
        const rowsOf = idsOf(current, from, to);
        if (idsOf(next, bag, bag + 1).some((row) => rowsOf.includes(row))) expected.push(bag);
      }
      t.true(expected.length > 10 && expected.length < 110);
      const out = new Int32Array(120);
      t.is(k.collidingBags(out, tables, next, current), expected.length);
      t.deepEqual([...out.subarray(0, expected.length)], expected);
      const few = new Int32Array(2);
      t.is(k.collidingBags(few, tables, next, current), expected.length);
      t.deepEqual([...few], expected.slice(0, 2));
    }
  },
};

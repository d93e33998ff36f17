// Cases of the kernels' suite: one call for many tables, or many ranges of columns, gives what a
// call for each gives.

import { takesMean } from "../../src/kernels/contract/kernels.ts";
import { slicesOf } from "../../src/kernels/contract/slices.ts";
import { RandomStream } from "../../src/ports/random.ts";
import { sameValues } from "../helpers/same-values.ts";
import { rounds } from "../helpers/thinned.ts";
import { type Cases, list, lookupsAt, random } from "./cases.ts";
import { embeddingProblem, stateOf, widened } from "./scenarios.ts";

export const manyTables: Cases = {
  "one call for many tables gives the sums, and keeps the order, of a call for each": (t, k) => {
    const problems = rounds("problems of many tables", 4, 12);
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
};

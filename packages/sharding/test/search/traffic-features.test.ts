// Traffic features of a table for cost networks: against random batches, and by hand.

import test from "ava";
import { Zipf } from "../../../../src/data/synthetic/zipf.ts";
import { reuseOf } from "../../../../src/planner/reuse.ts";
import { RandomStream } from "../../../../src/ports/random.ts";
import { featureCount, featuresOf } from "../../search/features.ts";

const batchSize = 1024;

/** Features by name: counts are in thousands; `beyond` caches starts at the smallest cache. */
function namedOf(table: { rows: number; dim: number; poolingFactor: number; bins: number[] }) {
  const numbers = featuresOf(table, "traffic", batchSize);
  const [ids = 0, , , , distinct = 0, elements = 0, lines = 0] = numbers;
  return { ids, distinct, elements, lines, beyond: numbers.slice(7, -4), last: numbers.slice(-4) };
}

for (const [rows, zipf] of [
  [4096, 0],
  [4096, 1],
  [100_000, 0.7],
  [300, 1.3],
] as const) {
  test(`${rows} rows, Zipf ${zipf}: a batch has as many distinct rows as drawn batches`, (t) => {
    const [dim, poolingFactor] = [32, 3];
    const named = namedOf({
      rows,
      dim,
      poolingFactor,
      bins: reuseOf({ rows, poolingFactor, zipf }),
    });
    const random = new RandomStream(1, 9);
    const law = new Zipf(rows, zipf);
    const drawn = Array.from({ length: batchSize * poolingFactor }, () =>
      law.draw(() => random.uniform()),
    );
    const distinct = new Set(drawn).size / 1000;
    t.is(named.ids, drawn.length / 1000);
    t.true(Math.abs(named.distinct / distinct - 1) < 0.12, `${named.distinct}, drawn ${distinct}`);
    t.is(named.elements, dim * named.distinct);
    // Two cache lines per row of 32 columns. Accesses beyond a cache are also beyond a smaller one.
    t.is(named.lines, 2 * named.distinct);
    for (const [i, share] of named.beyond.entries()) {
      t.true(share >= 0 && share <= (named.beyond[i - 1] ?? 2 * named.ids) + 1e-9);
      // Lookups of rows beyond the most popular ones that a cache holds.
      const held = 2 ** (14 + 2 * i) / 128;
      const counts = new Map<number, number>();
      for (const id of drawn) counts.set(id, (counts.get(id) ?? 0) + 1);
      const rest = [...counts.entries()].sort(([a], [b]) => a - b).slice(Math.floor(held));
      const missed = (2 * rest.reduce((sum, [, count]) => sum + count, 0)) / 1000;
      t.true(Math.abs(share - missed) < 0.15 * 2 * named.ids, `${i}: ${share}, drawn ${missed}`);
    }
  });
}

test("traffic of equally popular rows, by hand; a table without ids has none", (t) => {
  const bins = new Array<number>(17).fill(0);
  bins[6] = 1;
  // 48 lookups of each row per window, so 4,096 rows; a batch is a 64th of the window.
  const { ids, distinct, last } = namedOf({ rows: 1e6, dim: 16, poolingFactor: 3, bins });
  t.is(ids, 3.072);
  t.true(Math.abs(distinct - 4.096 * (1 - Math.exp(-0.75))) < 1e-9);
  t.deepEqual(last, [16, Math.log2(1e6 + 1), Math.log2(17), Math.log2(3073)]);
  const none = { rows: 50, dim: 4, poolingFactor: 0, bins: new Array<number>(17).fill(0) };
  const numbers = featuresOf(none, "traffic", batchSize);
  t.is(featureCount("traffic"), numbers.length);
  t.true(numbers.slice(0, -4).every((value) => value === 0));
});

// The number of lookups of a distinct row in a window: Zipf's law against random draws.

import test from "ava";
import { reuseBins, reuseOf, windowSamples } from "../../../../src/planner/reuse.ts";
import { RandomStream } from "../../../../src/ports/random.ts";

for (const [rows, zipf, poolingFactor] of [
  [50, 0, 1],
  [1000, 1.05, 1],
  [200_000, 0.8, 3],
  [100_000, 0, 0.5],
] as const) {
  test(`reuse of ${rows} rows, Zipf ${zipf}, ${poolingFactor} ids a sample, equals that of draws`, (t) => {
    const bins = reuseOf({ rows, zipf, poolingFactor });
    const sum = bins.reduce((all, bin) => all + bin, 0);
    t.true(Math.abs(sum - 1) < 1e-9);
    const counted = drawn(rows, zipf, poolingFactor * windowSamples);
    for (const [bin, share] of counted.entries()) {
      t.true(Math.abs(share - (bins[bin] ?? 0)) < 0.03, `bin ${bin}: ${share}, ${bins[bin]}`);
    }
  });
}

test("a table without ids has no reuse", (t) => {
  t.deepEqual(reuseOf({ rows: 10, zipf: 1, poolingFactor: 0 }), new Array(reuseBins).fill(0));
});

function drawn(rows: number, zipf: number, draws: number): number[] {
  const random = new RandomStream(1, 4);
  const below = new Float64Array(rows);
  let all = 0;
  for (let row = 0; row < rows; row++) below[row] = all += (row + 1) ** -zipf;
  const counts = new Uint32Array(rows);
  for (let i = 0; i < draws; i++) {
    const at = all * random.uniform();
    let [low, high] = [0, rows - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((below[middle] ?? 0) > at) high = middle;
      else low = middle + 1;
    }
    counts[low] = (counts[low] ?? 0) + 1;
  }
  const bins = new Array<number>(reuseBins).fill(0);
  const seen = counts.filter((count) => count > 0);
  for (const count of seen) {
    const bin = Math.min(reuseBins - 1, Math.ceil(Math.log2(count)));
    bins[bin] = (bins[bin] ?? 0) + 1 / seen.length;
  }
  return bins;
}

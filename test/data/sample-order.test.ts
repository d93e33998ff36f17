// The order of samples: each epoch visits every sample once, in an order drawn from the seed.

import test from "ava";
import { fillOrder } from "../../src/data/sample-order.ts";
import { fc } from "../helpers/properties.ts";

const orderOf = (seed: number, epoch: number, samples: number) => {
  const out = new Uint32Array(samples);
  fillOrder(out, { seed, epoch, first: 0, samples, shuffle: true });
  return out;
};

test("every epoch visits every sample once, whatever their number", (t) => {
  const sizes = [1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33, 255, 256, 257, 1000, 4096, 4097, 70_001];
  for (const samples of sizes) {
    const sorted = orderOf(3, 1, samples).sort();
    t.true(
      sorted.every((sample, i) => sample === i),
      `${samples} samples`,
    );
  }
});

test("a position in an epoch has the same sample alone and in any batch", (t) => {
  const isTheSame = fc.check(
    fc.property(
      fc.record({
        seed: fc.nat({ max: Number.MAX_SAFE_INTEGER }),
        epoch: fc.nat({ max: 1000 }),
        samples: fc.integer({ min: 1, max: 0x1_0000_0000 }),
        part: fc.double({ min: 0, max: 0.99, noNaN: true }),
      }),
      ({ seed, epoch, samples, part }) => {
        const first = Math.floor(part * samples);
        const out = new Uint32Array(Math.min(9, samples - first));
        fillOrder(out, { seed, epoch, first, samples, shuffle: true });
        return out.every((sample, i) => {
          const alone = new Uint32Array(1);
          fillOrder(alone, { seed, epoch, first: first + i, samples, shuffle: true });
          return sample < samples && sample === alone[0];
        });
      },
    ),
    { seed: 11, numRuns: 200 },
  );
  t.false(isTheSame.failed, JSON.stringify(isTheSame.counterexample));
});

test("another seed or epoch has another order", (t) => {
  const base = orderOf(1, 0, 1000);
  const agreeing = (other: Uint32Array) => other.filter((sample, i) => sample === base[i]).length;
  t.is(agreeing(orderOf(1, 0, 1000)), 1000);
  t.true(agreeing(orderOf(2, 0, 1000)) < 15);
  t.true(agreeing(orderOf(1, 1, 1000)) < 15);
  t.true(agreeing(orderOf(1 + 2 ** 32, 0, 1000)) < 15);
});

test("the sample order of a job is the same in every version", (t) => {
  t.deepEqual([...orderOf(7, 2, 10)], [2, 5, 4, 8, 7, 6, 9, 1, 3, 0]);
});

test("each sample is equally frequent at each position", (t) => {
  for (const samples of [10, 33]) {
    const counts = new Float64Array(samples * samples);
    const passes = 3000;
    for (let epoch = 0; epoch < passes; epoch++) {
      for (const [place, sample] of orderOf(5, epoch, samples).entries()) {
        const cell = place * samples + sample;
        counts[cell] = (counts[cell] ?? 0) + 1;
      }
    }
    const mean = passes / samples;
    const chiSquare = counts.reduce((sum, count) => sum + (count - mean) ** 2 / mean, 0);
    const freedom = (samples - 1) ** 2;
    const z = (chiSquare - freedom) / Math.sqrt(2 * freedom);
    t.true(Math.abs(z) < 4.5, `${samples} samples: chi-square is ${z.toFixed(1)} deviations off`);
  }
});

test("neighbours in the file are not neighbours in the epoch", (t) => {
  const order = orderOf(9, 0, 100_000);
  let near = 0;
  for (let i = 1; i < order.length; i++) {
    if (Math.abs((order[i] ?? 0) - (order[i - 1] ?? 0)) < 100) near++;
  }
  t.true(Math.abs(near - 200) < 60, `${near} of about 200 by chance`);
});

test("without shuffling, the order is the file's", (t) => {
  const out = new Uint32Array(4);
  fillOrder(out, { seed: 1, epoch: 5, first: 6, samples: 10, shuffle: false });
  t.deepEqual([...out], [6, 7, 8, 9]);
});

test("positions beyond the epoch are refused", (t) => {
  const order = { seed: 1, epoch: 0, first: 8, samples: 10, shuffle: true };
  t.throws(() => fillOrder(new Uint32Array(3), order), { message: /places in the pass/ });
});

// The orders of samples: each epoch visits every sample once, in an order drawn from the seed, or
// from splits that each slice reads one after another.

import test from "ava";
import type { SampleRange } from "../../src/data/dataset.ts";
import { mix32 } from "../../src/data/murmur-hash.ts";
import { Permutation } from "../../src/data/permutation.ts";
import { evenSplits, fillOrder, SplitOrder, splitSamplesOf } from "../../src/data/sample-order.ts";
import { sliceBoundsOf } from "../../src/kernels/contract/slices.ts";
import { keyOf, philox } from "../../src/ports/random.ts";
import { fc } from "../helpers/properties.ts";

const orderOf = (seed: number, epoch: number, samples: number) => {
  const out = new Float64Array(samples);
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
        samples: fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }),
        part: fc.double({ min: 0, max: 0.99, noNaN: true }),
      }),
      ({ seed, epoch, samples, part }) => {
        const first = Math.floor(part * samples);
        const out = new Float64Array(Math.min(9, samples - first));
        fillOrder(out, { seed, epoch, first, samples, shuffle: true });
        return out.every((sample, i) => {
          const alone = new Float64Array(1);
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
  const agreeing = (other: Float64Array) => other.filter((sample, i) => sample === base[i]).length;
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

/** The Feistel network in integers of any size. */
function permuted(index: number, size: number, { seed = 5, purpose = 1, step = 3 } = {}): number {
  const keys = new Uint32Array(8);
  for (const block of [0, 1]) {
    philox(keys.subarray(4 * block), keyOf(seed), [block, 0, step, purpose]);
  }
  const bits = Math.max(2, (BigInt(size) - 1n).toString(2).length);
  let place = BigInt(index);
  do {
    let [low, high] = [BigInt(bits - (bits >> 1)), BigInt(bits >> 1)];
    let [left, right] = [place >> low, place & ((1n << low) - 1n)];
    for (const key of keys) {
      const mixed = BigInt(mix32(Number(right) ^ key) >>> (32 - Number(high)));
      [left, right, low, high] = [right, left ^ mixed, high, low];
    }
    place = (left << low) | right;
  } while (place >= BigInt(size));
  return Number(place);
}

test("a permutation of any size up to 2^53 is the Feistel network of its halves", (t) => {
  const sizes = [1, 2, 5, 1000, 2 ** 31 + 1, 2 ** 32 - 1, 2 ** 32, 2 ** 32 + 1, 2 ** 33];
  for (const size of [...sizes, 5 * 10 ** 11, 2 ** 52 + 9, 2 ** 53]) {
    const own = new Permutation({ seed: 5, purpose: 1, step: 3, size });
    for (const place of [0, 1, 0.3, 0.7]) {
      const index = Number.isInteger(place) ? place % size : Math.floor(place * size);
      t.is(own.at(index), permuted(index, size), `${index} of ${size}`);
    }
    t.is(own.at(size - 1), permuted(size - 1, size), `the last of ${size}`);
  }
});

test("the split order of more than 2^32 samples has the samples of its splits", (t) => {
  const [samples, splitSamples] = [2 ** 33 + 96, 2 ** 28];
  const order = startOrder({ samples, splitSamples, batchSize: 1000, slices: 4 });
  const first = 1000 * (2 ** 23 - 1);
  const out = new Float64Array(1000);
  order.fill(out, first);
  const { now } = order.rangesAt(first, 1000);
  t.is(new Set(out).size, 1000);
  t.true(out.some((sample) => sample >= 2 ** 32));
  t.true(out.every((sample) => now.some((range) => sample >= range.first && sample < range.end)));
  t.true(now.every((range) => range.end - range.first <= splitSamples));
});

test("without shuffling, the order is the file's", (t) => {
  const out = new Float64Array(4);
  fillOrder(out, { seed: 1, epoch: 5, first: 6, samples: 10, shuffle: false });
  t.deepEqual([...out], [6, 7, 8, 9]);
});

test("positions beyond the epoch are refused", (t) => {
  const order = { seed: 1, epoch: 0, first: 8, samples: 10, shuffle: true };
  t.throws(() => fillOrder(new Float64Array(3), order), { message: /places in the pass/ });
});

interface Shape {
  readonly samples: number;
  readonly splitSamples: number;
  readonly batchSize: number;
  readonly slices: number;
  readonly seed?: number;
  readonly epoch?: number;
}

function startOrder({ samples, splitSamples, batchSize, slices, seed = 3, epoch = 1 }: Shape) {
  const bounds = sliceBoundsOf(slices, batchSize);
  const starts = evenSplits(samples, splitSamples);
  return new SplitOrder({ seed, epoch, starts, batchSize, bounds });
}

function allOf(shape: Shape): Float64Array {
  const out = new Float64Array(shape.samples);
  startOrder(shape).fill(out, 0);
  return out;
}

const shapes = fc
  .record({
    samples: fc.integer({ min: 1, max: 3000 }),
    splitSamples: fc.integer({ min: 1, max: 400 }),
    batchSize: fc.integer({ min: 1, max: 300 }),
    slices: fc.constantFrom(1, 2, 4, 8, 16),
    seed: fc.nat({ max: Number.MAX_SAFE_INTEGER }),
    epoch: fc.nat({ max: 1000 }),
  })
  .map((shape): Shape => shape);

function holds(
  t: { false(value: boolean, message: string): boolean },
  is: (shape: Shape) => boolean,
) {
  const checked = fc.check(fc.property(shapes, is), { seed: 5, numRuns: 300 });
  t.false(checked.failed, JSON.stringify(checked.counterexample));
}

test("every epoch visits every sample once, for any splits, batches and slices", (t) => {
  holds(t, (shape) =>
    allOf(shape)
      .sort()
      .every((sample, i) => sample === i),
  );
});

test("a position in an epoch has the same sample alone and in any range", (t) => {
  holds(t, (shape) => {
    const all = allOf(shape);
    const order = startOrder(shape);
    return [0, 0.3, 0.77].every((part) => {
      const first = Math.floor(part * shape.samples);
      const out = new Float64Array(Math.min(97, shape.samples - first));
      order.fill(out, first);
      return out.every((sample, i) => sample === all[first + i]);
    });
  });
});

const has = (ranges: readonly SampleRange[], sample: number) =>
  ranges.some(({ first, end }) => sample >= first && sample < end);

test("the ranges of some positions have all their samples, and no split twice", (t) => {
  holds(t, (shape) => {
    const order = startOrder(shape);
    const first = Math.floor(shape.samples / 3);
    const out = new Float64Array(Math.min(shape.batchSize, shape.samples - first));
    order.fill(out, first);
    const { now, next } = order.rangesAt(first, out.length);
    const firsts = [...now, ...next].map((range) => range.first);
    return out.every((sample) => has(now, sample)) && new Set(firsts).size === firsts.length;
  });
});

test("a slice reads each of its splits once, and names the next one ahead of need", (t) => {
  const shape = { samples: 100_000, splitSamples: 300, batchSize: 256, slices: 4 };
  const order = startOrder(shape);
  const bounds = sliceBoundsOf(shape.slices, shape.batchSize);
  const steps = Math.ceil(shape.samples / shape.batchSize);
  let samplesRead = 0;
  let late = 0;
  let splitsRead = 0;
  for (let slice = 0; slice < shape.slices; slice++) {
    let held = new Map<number, SampleRange>();
    const [from = 0, to = 0] = [bounds[slice], bounds[slice + 1]];
    for (let step = 0; step < steps; step++) {
      const count = Math.min(shape.batchSize, shape.samples - step * shape.batchSize);
      const [begin, end] = [(from * count) / 256, (to * count) / 256].map(Math.floor);
      const { now, next } = order.rangesAt(
        step * shape.batchSize + (begin ?? 0),
        (end ?? 0) - (begin ?? 0),
      );
      const wanted = new Map([...now, ...next].map((range) => [range.first, range]));
      for (const range of wanted.values()) {
        if (held.has(range.first)) continue;
        splitsRead++;
        samplesRead += range.end - range.first;
        if (now.includes(range)) late++;
      }
      held = wanted;
    }
  }
  // Not announced beforehand: the first split of each slice, and splits of the short last batch.
  t.true(late <= 2 * shape.slices, `${late} of ${splitsRead}`);
  t.true(samplesRead / shape.samples < 1.03, `${samplesRead}`);
});

test("another seed or epoch has another order, of splits and within them", (t) => {
  const shape = { samples: 10_000, splitSamples: 50, batchSize: 64, slices: 8 };
  const base = allOf(shape);
  const agreeing = (other: Partial<Shape>) =>
    allOf({ ...shape, ...other }).filter((sample, i) => sample === base[i]).length;
  t.is(agreeing({}), 10_000);
  t.true(agreeing({ seed: 4 }) < 20);
  t.true(agreeing({ epoch: 2 }) < 20);
  const inside = (epoch: number) =>
    allOf({ samples: 50, splitSamples: 50, batchSize: 50, slices: 1, epoch }).join();
  t.not(inside(0), inside(1));
});

test("the split order of a job is the same in every version", (t) => {
  const shape = { samples: 20, splitSamples: 4, batchSize: 6, slices: 2, seed: 7, epoch: 2 };
  const order = [4, 5, 7, 18, 16, 19, 6, 13, 14, 0, 2, 1, 15, 12, 17, 3, 9, 11, 8, 10];
  t.deepEqual([...allOf(shape)], order);
});

test("a full batch mixes at least as many splits as it has slices", (t) => {
  const shape = { samples: 64_000, splitSamples: 200, batchSize: 80, slices: 8 };
  const order = startOrder(shape);
  for (let step = 0; step < 800; step += 7) {
    t.true(order.rangesAt(step * 80, 80).now.length >= 8);
  }
});

test("splits are as large as memory allows, with 64 or more per slice", (t) => {
  const bytes = 212;
  const large = splitSamplesOf({ samples: 1e8, bytes: bytes * 1e8, slices: 8 });
  t.is(large, 32 * Math.floor(2 ** 26 / 8 / bytes / 32), "splits are whole blocks");
  const small = splitSamplesOf({ samples: 1e6, bytes: bytes * 1e6, slices: 8 });
  t.is(small, 32 * Math.floor(1e6 / 512 / 32));
  t.is(splitSamplesOf({ samples: 10, bytes: 1000, slices: 128 }), 32, "at least a block");
});

test("positions beyond the epoch, and slices that are no full batch, are refused", (t) => {
  const order = startOrder({ samples: 10, splitSamples: 3, batchSize: 4, slices: 2 });
  t.throws(() => order.fill(new Float64Array(3), 8), { message: /places in the pass/ });
  const starts = evenSplits(10, 3);
  const spec = { seed: 1, epoch: 0, starts, batchSize: 4, bounds: [0, 2] };
  t.throws(() => new SplitOrder(spec), { message: /slices that make up a batch/ });
});

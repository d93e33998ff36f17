// The splits that a reader holds for the batch of a step: it waits for splits only at the very
// beginning and in an epoch's short batch, and holds few.

import test from "ava";
import { heldForStep } from "../../../actors/threads/data/batch-source.ts";
import { EpochOrder, evenSplits } from "../../../src/data/sample-order.ts";
import { scheduleOf } from "../../../src/training/loop/schedule.ts";

/**
 * Holds the ranges that each step requests. Returns by step the ranges that were not read ahead.
 */
function walk(input: Parameters<typeof heldForStep>[0]) {
  let held = new Set<string>();
  const late: string[][] = [];
  let reads = 0;
  let most = 0;
  for (let step = input.schedule.begin; step < input.schedule.steps; step++) {
    const { now, next } = heldForStep(input, step) ?? { now: [], next: [] };
    const keys = (ranges: typeof now) => ranges.map(({ first, end }) => `${first} ${end}`);
    late.push(keys(now).filter((key) => !held.has(key)));
    const wanted = new Set([...keys(now), ...keys(next)]);
    reads += [...wanted].filter((key) => !held.has(key)).length;
    held = wanted;
    most = Math.max(most, wanted.size);
  }
  return { late, reads, most };
}

const slices = 4;
const begin = 7; // After a warm start.
const partsOf = (count: number) => [{ first: 0, count }];

test("an epoch's first splits are read ahead at the end of the epoch before", (t) => {
  const [samples, splitSamples, batchSize, passes] = [5000, 100, 96, 3];
  const schedule = scheduleOf({ samples, batchSize, passes, begin });
  const split = { splitSamples, splits: undefined, slices };
  const order = new EpochOrder({ seed: 3, shuffle: true, split }, schedule);
  const { late, reads, most } = walk({ schedule, order, dataset: {}, partsOf });
  const { stepsPerEpoch } = schedule;
  t.true((late[0]?.length ?? 0) >= slices, "no split is read ahead at the beginning");
  for (let epoch = 1; epoch < passes; epoch++) t.deepEqual(late[epoch * stepsPerEpoch], []);
  const isShort = (i: number) => (i + 1) % stepsPerEpoch === 0;
  const others = late.filter((_, i) => i > 0 && !isShort(i));
  t.deepEqual(others.flat(), [], "only short batches have late splits");
  const splits = evenSplits(samples, splitSamples).length - 1;
  // At both ends of its part a slice shares a split with another slice, and both read it.
  t.true(reads <= passes * (splits + 2 * slices), `${reads} of ${passes * splits}`);
  t.true(most <= 2 * slices + 2, `${most} splits at once`);
});

test("the last epoch reads no split ahead that no step trains on", (t) => {
  const schedule = scheduleOf({ samples: 960, batchSize: 96, passes: 2 });
  const split = { splitSamples: 60, splits: undefined, slices };
  const order = new EpochOrder({ seed: 3, shuffle: true, split }, schedule);
  const input = { schedule, order, dataset: {}, partsOf };
  t.not(heldForStep(input, 9)?.next.length, 0);
  t.deepEqual(heldForStep(input, 19)?.next, []);
});

test("pieces in file order are read ahead for the next epoch before this one ends", (t) => {
  const pieces = Float64Array.from([0, 200, 400, 600]);
  const schedule = scheduleOf({ samples: 600, batchSize: 50, passes: 2 });
  const order = new EpochOrder({ seed: 3, shuffle: false }, schedule);
  const dataset = { isStreamed: true, pieces };
  const { late, reads } = walk({ schedule, order, dataset, partsOf });
  t.deepEqual(late.flat(), ["0 200"]);
  t.is(reads, 6);
  const alone = { ...dataset, pieces: Float64Array.from([0, 600]) };
  t.is(walk({ schedule, order, dataset: alone, partsOf }).reads, 1);
  t.is(heldForStep({ schedule, order, dataset: {}, partsOf }, 0), undefined);
});

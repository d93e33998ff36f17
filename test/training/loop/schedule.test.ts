// The schedule of a run: samples of steps, windows, cuts and evaluations.

import { isDeepStrictEqual } from "node:util";
import test from "ava";
import {
  type Cut,
  type CutOptions,
  nextCut,
  placesOf,
  scheduleOf,
  windowStepsMax,
} from "../../../src/training/loop/schedule.ts";
import { fc } from "../../helpers/properties.ts";

const shapes = fc.record({
  samples: fc.integer({ min: 1, max: 5000 }),
  batchSize: fc.integer({ min: 1, max: 300 }),
  passes: fc.integer({ min: 1, max: 4 }),
});
const jobs: fc.Arbitrary<CutOptions> = fc.record({
  evaluation: fc.option(fc.record({ everySteps: fc.nat(60) }), { nil: undefined }),
  checkpoint: fc.record({ everySteps: fc.integer({ min: 1, max: 60 }) }),
});

// Properties return a boolean: an AVA assertion for each of a million steps would take minutes.

/** Whether the steps take all samples of each epoch, in order. */
function takesAll(shape: Parameters<typeof scheduleOf>[0]): boolean {
  const schedule = scheduleOf(shape);
  let [epoch, first] = [0, 0];
  for (let step = 0; step < schedule.steps; step++) {
    const places = placesOf(schedule, step);
    if (places.epoch !== epoch || places.first !== first) return false;
    if (places.count < 1 || places.count > shape.batchSize) return false;
    first += places.count;
    if (first < shape.samples) continue;
    if (first !== shape.samples) return false;
    [epoch, first] = [epoch + 1, 0];
  }
  return epoch === shape.passes;
}

test("steps take the samples of each epoch in order, and all of them", (t) => {
  t.notThrows(() => fc.assert(fc.property(shapes, takesAll), { numRuns: 50 }));
});

test("cuts advance to the last step, and no window exceeds the devices' ring", (t) => {
  const property = fc.property(shapes, jobs, (shape, job) => {
    const schedule = scheduleOf(shape);
    for (let step = 0; step < schedule.steps; ) {
      const cut = nextCut(schedule, job, step);
      if (cut.step <= step || cut.step > step + windowStepsMax) return false;
      if (cut.isLast !== (cut.step === schedule.steps)) return false;
      const isWhole = cut.checkpoint && cut.evaluate === (job.evaluation !== undefined);
      if (cut.isLast && !isWhole) return false;
      step = cut.step;
    }
    return true;
  });
  t.notThrows(() => fc.assert(property, { numRuns: 50 }));
});

test("a run resumed from any checkpoint has the same later cuts", (t) => {
  const property = fc.property(shapes, jobs, fc.nat(), (shape, job, pick) => {
    const schedule = scheduleOf(shape);
    const cutsFrom = (from: number) => {
      const cuts: Cut[] = [];
      for (let step = from; step < schedule.steps; ) {
        const cut = nextCut(schedule, job, step);
        if (cut.evaluate || cut.checkpoint) cuts.push(cut);
        step = cut.step;
      }
      return cuts;
    };
    const all = cutsFrom(0);
    // In a run with thousands of cuts: the first, the last and one in the middle.
    return [0, pick % all.length, all.length - 1].every((at) =>
      isDeepStrictEqual(cutsFrom(all[at]?.step ?? 0), all.slice(at + 1)),
    );
  });
  t.notThrows(() => fc.assert(property, { numRuns: 50 }));
});

test("a job is evaluated and saved at the steps that it requests", (t) => {
  const schedule = scheduleOf({ samples: 1000, batchSize: 100, passes: 2 });
  const job = { evaluation: { everySteps: 0 }, checkpoint: { everySteps: 8 } };
  t.deepEqual(nextCut(schedule, job, 0), {
    step: 8,
    evaluate: false,
    checkpoint: true,
    isLast: false,
  });
  t.deepEqual(nextCut(schedule, job, 8), {
    step: 10,
    evaluate: true,
    checkpoint: false,
    isLast: false,
  });
  t.deepEqual(nextCut(schedule, job, 16), {
    step: 20,
    evaluate: true,
    checkpoint: true,
    isLast: true,
  });
});

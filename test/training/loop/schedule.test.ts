import test from "ava";
import fc from "fast-check";
import {
  type CutOptions,
  nextCut,
  placesOf,
  scheduleOf,
  windowStepsMax,
} from "../../../src/training/loop/schedule.ts";

const shapes = fc.record({
  samples: fc.integer({ min: 1, max: 5000 }),
  batchSize: fc.integer({ min: 1, max: 300 }),
  passes: fc.integer({ min: 1, max: 4 }),
});
const jobs: fc.Arbitrary<CutOptions> = fc.record({
  evaluation: fc.option(fc.record({ everySteps: fc.nat(60) }), { nil: undefined }),
  checkpoint: fc.record({ everySteps: fc.integer({ min: 1, max: 60 }) }),
});

test("every step's samples are the next of its pass, and every pass has all of them", (t) => {
  fc.assert(
    fc.property(shapes, (shape) => {
      const schedule = scheduleOf(shape);
      let [epoch, first] = [0, 0];
      for (let step = 0; step < schedule.steps; step++) {
        const places = placesOf(schedule, step);
        t.like(places, { epoch, first });
        t.true(places.count >= 1 && places.count <= shape.batchSize);
        first += places.count;
        if (first < shape.samples) continue;
        t.is(first, shape.samples);
        [epoch, first] = [epoch + 1, 0];
      }
      t.is(epoch, shape.passes);
    }),
    { numRuns: 50 },
  );
});

test("cuts go forward to the last step, no window longer than the devices' ring", (t) => {
  fc.assert(
    fc.property(shapes, jobs, (shape, job) => {
      const schedule = scheduleOf(shape);
      for (let step = 0; step < schedule.steps; ) {
        const cut = nextCut(schedule, job, step);
        t.true(cut.step > step && cut.step <= step + windowStepsMax);
        t.is(cut.isLast, cut.step === schedule.steps);
        if (cut.isLast) t.true(cut.checkpoint && cut.evaluate === (job.evaluation !== undefined));
        step = cut.step;
      }
    }),
    { numRuns: 50 },
  );
});

test("a run that goes on from any checkpoint meets the same cuts", (t) => {
  fc.assert(
    fc.property(shapes, jobs, (shape, job) => {
      const schedule = scheduleOf(shape);
      const cutsFrom = (from: number) => {
        const cuts: string[] = [];
        for (let step = from; step < schedule.steps; ) {
          const cut = nextCut(schedule, job, step);
          if (cut.evaluate || cut.checkpoint) cuts.push(JSON.stringify(cut));
          step = cut.step;
        }
        return cuts;
      };
      const all = cutsFrom(0);
      for (const [i, text] of all.entries()) {
        const { step } = JSON.parse(text) as { step: number };
        t.deepEqual(cutsFrom(step), all.slice(i + 1));
      }
    }),
    { numRuns: 20 },
  );
});

test("a job is evaluated and saved when it said so", (t) => {
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

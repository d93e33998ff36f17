// The notice at the start of asynchronous training.

import test from "ava";
import { asynchronousNotice } from "../../../../actors/run/state/asynchronous-metrics.ts";
import { asynchronousOptions } from "../../../../src/job/asynchronous-options.ts";

const jobOf = (elastic: object) => {
  return { mode: "async" as const, async: asynchronousOptions.parse({ elastic }) };
};

test("if exchanges are rare, the notice of a run has the distance that its center moves", (t) => {
  const short = asynchronousNotice(jobOf({}), { steps: 85, trainers: 8 });
  t.regex(short, /in 85 steps, trainers meet the center 8 times, which takes it 40 % of the way/);
  const never = asynchronousNotice(jobOf({ every: 100_000 }), { steps: 85, trainers: 2 });
  t.regex(never, /meet the center 0 times, which takes it 0 % of the way/);
  t.notRegex(asynchronousNotice(jobOf({}), { steps: 1000, trainers: 2 }), /center/);
  t.notRegex(asynchronousNotice(jobOf({ every: 1 }), { steps: 85, trainers: 8 }), /center/);
});

// The learning rate schedule: a warm-up, then a decay. The rate depends only on the step, so that a
// restored run continues with the same rates. It is computed by sums and products only, so that
// every machine computes the same bits.

import { power } from "../../kernels/contract/row-average.ts";
import type { RateSchedule } from "./schedule-options.ts";

/** The factor on the learning rate at step `step`, which counts from 0. */
export function rateShare(schedule: RateSchedule | undefined, step: number): number {
  if (schedule === undefined) return 1;
  const { kind, warmUpSteps } = schedule;
  if (step < warmUpSteps) return (step + 1) / warmUpSteps;
  if (kind === "constant") return 1;
  const done = Math.max(0, step - (schedule.from ?? warmUpSteps));
  if (kind === "step") return power(schedule.factor, Math.floor(done / schedule.everySteps));
  const t = Math.min(1, done / schedule.steps);
  const left = kind === "cosine" ? (1 + cosineOf(t)) / 2 : power(1 - t, schedule.power);
  return schedule.to + (1 - schedule.to) * left;
}

/**
 * cos(pi t) for t from 0 to 1, with an error below 1e-15: the same bits on every machine, unlike
 * Math.cos. Symmetry reduces the argument to an eighth of a turn, where the Taylor series of sine
 * or cosine gives the value.
 */
function cosineOf(t: number): number {
  if (t > 0.5) return -cosineOf(1 - t);
  return t > 0.25 ? taylor(Math.PI * (0.5 - t), 1) : taylor(Math.PI * t, 0);
}

/** Terms of the series: the last one is below 1e-17. */
const terms = 10;

/** The Taylor series of the cosine (`first` power 0) or of the sine (`first` power 1). */
function taylor(x: number, first: 0 | 1): number {
  let term = first === 0 ? 1 : x;
  let sum = term;
  for (let n = 1; n < terms; n++) {
    const at = 2 * n + first;
    term *= -(x * x) / (at * (at - 1));
    sum += term;
  }
  return sum;
}

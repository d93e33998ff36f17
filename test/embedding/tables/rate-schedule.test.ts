// Learning rate schedules, and their reduction on a plateau, against PyTorch's.

import { readFileSync } from "node:fs";
import test from "ava";
import { z } from "zod";
import { rateShare } from "../../../src/embedding/tables/rate-schedule.ts";
import {
  type RateSchedule,
  scheduleOptions,
} from "../../../src/embedding/tables/schedule-options.ts";
import { InvalidOptionError } from "../../../src/errors/errors.ts";
import { checkOptions } from "../../../src/ports/check-options.ts";
import { noPlateau, plateauOptions, watchPlateau } from "../../../src/training/loop/plateau.ts";
import { near } from "../../helpers/stores/plans.ts";

const shares = z.array(z.number());
const golden = z
  .strictObject({
    ...{ polynomial: shares, cosine: shares, step: shares, warmUp: shares },
    plateau: z.strictObject({ auc: shares, shares }),
  })
  .parse(JSON.parse(readFileSync("test/fixtures/golden/schedules/schedules.json", "utf8")));

const schedules: Readonly<Record<Exclude<keyof typeof golden, "plateau">, object>> = {
  polynomial: { kind: "polynomial", steps: 40, power: 2 },
  cosine: { kind: "cosine", steps: 59, to: 0.1 },
  step: { kind: "step", everySteps: 7, factor: 0.5 },
  warmUp: { kind: "step", warmUpSteps: 10, everySteps: 20 },
};

function scheduleOf(options: object): RateSchedule {
  return checkOptions(scheduleOptions, options, "schedule");
}

for (const [name, options] of Object.entries(schedules)) {
  test(`${name}: every step has the rate of torch.optim.lr_scheduler`, (t) => {
    const own = scheduleOf(options);
    for (const [step, share] of golden[name as keyof typeof schedules].entries()) {
      near(t, rateShare(own, step), share, 1e-12);
    }
  });
}

test("without a schedule, and after a warm-up, the rate is exact to the last bit", (t) => {
  t.is(rateShare(undefined, 7), 1);
  const constant = scheduleOf({ kind: "constant", warmUpSteps: 3 });
  t.deepEqual(
    [0, 1, 2, 3, 4].map((step) => rateShare(constant, step)),
    [1 / 3, 2 / 3, 1, 1, 1],
  );
});

test("a decay may begin after the warm-up ends, and ends at its configured share", (t) => {
  const linear = scheduleOf({ kind: "polynomial", warmUpSteps: 2, from: 10, steps: 4, to: 0.5 });
  t.deepEqual(
    [1, 9, 10, 12, 14, 1e9].map((step) => rateShare(linear, step)),
    [1, 1, 1, 0.75, 0.5, 0.5],
  );
});

test("the cosine schedule equals Math.cos to twelve digits, and exactly at its ends", (t) => {
  const cosine = scheduleOf({ kind: "cosine", steps: 1000 });
  for (let step = 0; step <= 1000; step++) {
    near(t, rateShare(cosine, step), (1 + Math.cos((Math.PI * step) / 1000)) / 2, 1e-12);
  }
  t.deepEqual([rateShare(cosine, 0), rateShare(cosine, 1000)], [1, 0]);
});

test("a decay that begins within the warm-up is refused", (t) => {
  const early = { kind: "cosine", warmUpSteps: 10, from: 5, steps: 10 };
  const error = t.throws(() => scheduleOf(early), { instanceOf: InvalidOptionError });
  t.regex(error?.message ?? "", /`schedule.from` to be at least `warmUpSteps`, 10/);
});

test("a plateau reduces the rate at the same evaluation as PyTorch", (t) => {
  const options = { metric: "auc", factor: 0.5, patience: 2, minDelta: 0.001, least: 0.1 };
  const plateau = checkOptions(plateauOptions, options);
  let state = noPlateau;
  for (const [i, auc] of golden.plateau.auc.entries()) {
    const metrics = { samples: 1, positives: 1, calibration: 1, logLoss: 1, normalizedEntropy: 1 };
    state = watchPlateau(state, plateau, { ...metrics, auc });
    near(t, state.share, golden.plateau.shares[i] ?? Number.NaN, 1e-12);
  }
});

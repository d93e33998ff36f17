// The measured step times of a run's plans, and the decision whether another plan pays off.

import test from "ava";
import {
  assessMove,
  type MeasuredSoFar,
  measuredOn,
  windowSince,
  withMeasured,
} from "../../../../actors/run/state/measured-plans.ts";
import { type HostMeters, meterWords } from "../../../../src/training/meters/step-meter.ts";

const options = { gainMin: 0.05, margin: 2 };
const run = { stepSeconds: 0.1, stepsLeft: 1000, moveSeconds: 5 };

test("a plan is adopted if its gain is large enough and saves twice the time of the move", (t) => {
  const assessed = assessMove({ now: 4, planned: 3 }, run, options);
  t.deepEqual(assessed, { gain: 0.25, savesSeconds: 25, moveSeconds: 5, isTaken: true });
  const isTaken = (planned: number, more: Partial<typeof run> = {}) =>
    assessMove({ now: 4, planned }, { ...run, ...more }, options).isTaken;
  t.false(isTaken(3, { moveSeconds: 13 }), "25 s for a move of 13 s");
  t.false(isTaken(3, { stepsLeft: 399 }), "too few steps are left");
  t.false(isTaken(3.9, { stepsLeft: 1e9 }), "too small a share of a step");
  t.false(isTaken(4, { stepsLeft: 1e9 }));
  t.false(isTaken(5, { stepsLeft: 1e9 }), "a plan that is worse");
  const anyGain = { gainMin: 0, margin: 0 };
  t.true(assessMove({ now: 4, planned: 3.99 }, run, anyGain).isTaken);
  t.false(assessMove({ now: 4, planned: 4 }, run, anyGain).isTaken, "an equal plan");
  t.is(assessMove({ now: 0, planned: 0 }, run, anyGain).gain, 0);
});

const planOn = (device: number) => ({
  ...{ hosts: 1, perHost: 2 },
  shards: [[0, 0, 0, 0, 1, 0, 1, device] as const].map(
    (one) => [...one] as [number, number, number, number, number, number, number, number],
  ),
});

test("plans are kept with their newest times, by devices, and the oldest plans are dropped", (t) => {
  const none: MeasuredSoFar = { plans: [], changeSeconds: 3 };
  const first = withMeasured(none, [2], { plan: planOn(0), seconds: [1, 2] });
  const again = withMeasured(first, [2], { plan: planOn(0), seconds: [2, 2] });
  t.deepEqual(measuredOn(again, [2]), [{ plan: planOn(0), seconds: [2, 2] }]);
  t.deepEqual(measuredOn(again, [1, 1]), []);
  t.is(again.changeSeconds, 3);
  let all = again;
  for (let device = 1; device < 20; device++) {
    all = withMeasured(all, [2], { plan: planOn(device), seconds: [1, 1] });
  }
  t.is(measuredOn(all, [2]).length, 8);
  t.deepEqual(measuredOn(all, [2]).at(-1)?.plan, planOn(19));
});

test("the measured plans are limited to the size of a message, but include the current plan", (t) => {
  const large = (device: number, shards: number) => {
    const [one] = planOn(device).shards;
    return {
      ...planOn(device),
      shards: Array.from({ length: shards }, () => one ?? ([] as never)),
    };
  };
  let all: MeasuredSoFar = { plans: [], changeSeconds: undefined };
  for (let device = 0; device < 5; device++) {
    all = withMeasured(all, [2], { plan: large(device, 3000), seconds: [1, 1] });
  }
  t.deepEqual(
    measuredOn(all, [2]).map(({ plan }) => plan.shards[0]?.[7]),
    [3, 4],
  );
  all = withMeasured(all, [2], { plan: large(9, 20_000), seconds: [1, 1] });
  t.deepEqual(
    measuredOn(all, [2]).map(({ plan }) => plan.shards[0]?.[7]),
    [9],
  );
  t.deepEqual(measuredOn({ plans: [], changeSeconds: undefined }, [2]), []);
});

test("a measuring window ends once every device has made its steps", (t) => {
  const hosts = [{ host: 3, devices: 2 }];
  const meters = (devices: readonly (readonly [steps: number, micros: number])[]): HostMeters => ({
    devices: devices.map(([steps, micros]) => {
      const words = new Array<number>(meterWords).fill(0);
      Object.assign(words, { 0: steps, 2: micros, 4: micros / 4 });
      return words;
    }),
    reading: [0, 0],
  });
  const start = new Map([
    [
      3,
      meters([
        [5, 5e4],
        [5, 5e4],
      ]),
    ],
  ]);
  const since = (...devices: readonly (readonly [number, number])[]) =>
    windowSince(start, new Map([[3, meters(devices)]]), hosts, 10);
  t.is(since([15, 25e4], [14, 25e4]), undefined);
  t.is(windowSince(new Map(), new Map(), hosts, 10), undefined);
  const window = since([15, 25e4], [15, 45e4]);
  t.deepEqual(
    window?.seconds.map((one) => Math.round(1e4 * one)),
    [150, 300],
  );
  t.is(Math.round(1e4 * (window?.stepSeconds ?? 0)), 300);
});

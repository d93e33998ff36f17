// The watch over stragglers: which devices count as slow in a window.

import test from "ava";
import {
  assessDevices,
  dealSlices,
  noStragglers,
  type Straggler,
} from "../../../../actors/run/state/straggler-watch.ts";
import { type HostMeters, meterWords } from "../../../../src/training/meters/step-meter.ts";

const hosts = [
  { host: 1, devices: 2 },
  { host: 4, devices: 1 },
];
const slices = [2, 3, 3];

/**
 * Assesses windows of 100 steps of `stepMs`; `windows` has each device's compute time in
 * milliseconds.
 */
function assessed(
  windows: readonly (readonly number[])[],
  stepMs = 10,
  own: readonly number[] = slices,
): Straggler[][] {
  let watch = noStragglers;
  const totals = [0, 0, 0].map(() => new Array<number>(meterWords).fill(0));
  return windows.map((computing) => {
    for (const [device, ms] of computing.entries()) {
      const words = totals[device] ?? [];
      // Steps, their total time, and the rest as waits: word 4 is the wait for batches.
      for (const [word, more] of [
        [0, 100],
        [2, 1e5 * stepMs],
        [4, 1e5 * (stepMs - ms)],
      ] as const) {
        words[word] = (words[word] ?? 0) + more;
      }
    }
    const meters = (devices: number[][]): HostMeters => ({
      devices: devices.map((words) => [...words]),
      reading: [0, 0],
    });
    const latest = new Map([
      [1, meters(totals.slice(0, 2))],
      [4, meters(totals.slice(2))],
    ]);
    const next = assessDevices(watch, latest, { hosts, slices: own });
    watch = next.watch;
    return [...next.stragglers];
  });
}

const names = (found: readonly Straggler[][]) => found.map((all) => all.map(({ name }) => name));

test("a device is named as a straggler in the third consecutive window of half the speed", (t) => {
  const slow = [4, 4, 9];
  const found = assessed([slow, slow, [4, 4, 7], slow, slow, slow, slow]);
  t.deepEqual(names(found), [[], [], [], [], [], ["4/0"], []]);
  t.like(found[5]?.[0], { device: 2, host: 4 });
  t.is(found[5]?.[0]?.factor.toFixed(2), "2.25");
  // The others compute a slice in 2 and 1.33 ms, the straggler in 3.
  t.is(found[5]?.[0]?.speed.toFixed(2), "0.67");
});

test("devices that wait for a straggler do not count as slow", (t) => {
  t.deepEqual(names(assessed(new Array(4).fill([1, 1, 1]))), [[], [], [], []]);
});

test("devices without measurable compute time do not count as slow", (t) => {
  t.deepEqual(names(assessed(new Array(4).fill([0, 0, 0]))), [[], [], [], []]);
  t.deepEqual(names(assessed(new Array(4).fill([0, 0, 3]))), [[], [], [], []]);
});

test("a window in which a device has hardly made steps is not assessed", (t) => {
  const found = assessed(new Array(4).fill([0.4, 0.4, 0.9]), 1);
  t.deepEqual(names(found), [[], [], [], []]);
});

test("slices are dealt evenly without stragglers, else by speed, at least one to each device", (t) => {
  t.is(dealSlices(8, hosts, new Map()), undefined);
  t.is(dealSlices(8, hosts, new Map([["9/0", 0.1]])), undefined, "9/0 is not in the run");
  t.deepEqual(dealSlices(8, hosts, new Map([["1/1", 0.5]])), [4, 1, 3]);
  t.deepEqual(dealSlices(8, hosts, new Map([["1/1", 0.01]])), [4, 1, 3]);
  t.deepEqual(dealSlices(16, hosts, new Map([["4/0", 0.5]])), [7, 6, 3]);
  t.deepEqual(dealSlices(4, hosts, new Map([["4/0", 1]])), [2, 1, 1]);
});

test("a server gets no slices, and is no straggler", (t) => {
  t.deepEqual(dealSlices(8, hosts, new Map(), 1), [4, 4, 0]);
  t.deepEqual(dealSlices(8, hosts, new Map([["1/1", 3]]), 1), [2, 6, 0]);
  const slow = [1, 4, 9];
  const found = assessed([slow, slow, slow], 10, [4, 4, 0]);
  t.deepEqual(names(found), [[], [], ["1/1"]]);
});

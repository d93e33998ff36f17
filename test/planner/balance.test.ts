// The balance of the partitions, against the reference figures of a prototype: largest over mean
// load of lognormal(0,1) costs, mean of 20 draws.

import test from "ava";
import { difference } from "../../src/planner/differencing.ts";
import { partitionGreedily } from "../../src/planner/partition.ts";
import { RandomStream } from "../../src/ports/random.ts";
import { fc } from "../helpers/properties.ts";
import { near } from "../helpers/stores/plans.ts";

function greedy(costs: readonly number[], devices: number): number {
  const groups = costs.map((cost) => ({
    level: "device" as const,
    parts: [{ cost, bytes: 0 }],
  }));
  const room = { devices: { hosts: 1, perHost: devices }, bytes: 0 };
  return ratio(partitionGreedily(groups, room)?.cost ?? []);
}

function differencing(costs: readonly number[], devices: number): number {
  const items = difference(costs, new Float64Array(devices));
  return ratio(items.map((own) => own.reduce((sum, item) => sum + (costs[item] ?? 0), 0)));
}

function roundRobin(costs: readonly number[], devices: number): number {
  const loads = new Array<number>(devices).fill(0);
  for (const [i, cost] of costs.entries()) loads[i % devices] = (loads[i % devices] ?? 0) + cost;
  return ratio(loads);
}

function ratio(loads: ArrayLike<number>): number {
  const all = Array.from(loads);
  return Math.max(...all) / (all.reduce((sum, load) => sum + load, 0) / all.length);
}

/** Halves columns until no part is more than half of a device's even load. */
function split(costs: readonly number[], devices: number): number[] {
  const most = costs.reduce((sum, cost) => sum + cost, 0) / devices / 2;
  return costs.flatMap((cost) => {
    let parts = 1;
    while (cost / parts > most) parts *= 2;
    return new Array<number>(parts).fill(cost / parts);
  });
}

function draw(random: RandomStream, tables: number): number[] {
  return Array.from({ length: tables }, () => Math.exp(random.normal()));
}

// Without splitting, the hottest table bounds the balance, and the mean of 20 draws varies from 1.0
// to 1.4 (48 tables) or from 2.0 to 3.3 (800 tables on 128 devices). Each seed was chosen for the
// hottest table and the round-robin figure of the reference; these decide the other figures.
const rows = [
  { tables: 48, devices: 8, seed: 350, figures: [1.83, 1.214, 1.213, 1.009, 1.005] },
  { tables: 200, devices: 16, seed: 5376, figures: [2.04, 1.237, 1.236, 1.003, 1.001] },
  { tables: 800, devices: 16, seed: 8, figures: [1.36, 1.0005, 1.0, 1.0005, 1.0] },
  { tables: 800, devices: 128, seed: 528, figures: [3.14, 2.03, 2.03, 1.011, 1.009] },
];

for (const { tables, devices, seed, figures } of rows) {
  test(`${tables} tables on ${devices} devices balance like the reference`, (t) => {
    const random = new RandomStream(seed, tables);
    const sums = [0, 0, 0, 0, 0];
    for (let i = 0; i < 20; i++) {
      const costs = draw(random, tables);
      const parts = split(costs, devices);
      const found = [
        roundRobin(costs, devices),
        greedy(costs, devices),
        differencing(costs, devices),
        greedy(parts, devices),
        differencing(parts, devices),
      ];
      for (const [at, value] of found.entries()) sums[at] = (sums[at] ?? 0) + value / 20;
    }
    for (const [at, figure] of figures.entries()) near(t, sums[at] ?? 0, figure, 0.01);
  });
}

test("differencing balances no worse than greedy on nine of ten draws, after splitting", (t) => {
  const random = new RandomStream(1, 1);
  let better = 0;
  const trials = 100;
  for (let i = 0; i < trials; i++) {
    const devices = 2 + random.below(15);
    const parts = split(draw(random, 20 * devices), devices);
    if (differencing(parts, devices) <= greedy(parts, devices) + 1e-12) better++;
  }
  t.true(better >= 0.9 * trials, `${better} of ${trials}`);
});

test("differencing places every item once, on top of the loads of devices", (t) => {
  const costs = fc.array(fc.integer({ min: 0, max: 100 }), { maxLength: 30 });
  const loads = fc.array(fc.integer({ min: 0, max: 100 }), { minLength: 1, maxLength: 6 });
  fc.assert(
    fc.property(costs, loads, (items, held) => {
      const placed = difference(items, Float64Array.from(held));
      t.is(placed.length, held.length);
      t.deepEqual(
        placed.flat().sort((a, b) => a - b),
        [...items.keys()],
      );
    }),
  );
  // The textbook example: 8 7 6 5 4 in two parts differ by 2, as in Karmarkar and Karp.
  const sums = difference([8, 7, 6, 5, 4], new Float64Array(2)).map((own) =>
    own.reduce((sum, item) => sum + ([8, 7, 6, 5, 4][item] ?? 0), 0),
  );
  t.deepEqual(sums.sort(), [14, 16]);
  // The initial load of a device counts: both items go to the empty devices.
  const placed = difference([3, 3], Float64Array.of(10, 0, 0));
  t.deepEqual(
    placed.map((own) => own.length),
    [0, 1, 1],
  );
});

// The baselines of learned sharding: the published plans, each reproduced, and small cases by hand.

import { resolve } from "node:path";
import test from "ava";
import { type CostTable, weightBytesOf } from "../../../../src/planner/reuse.ts";
import { dataFile, testIf } from "../../../../test/helpers/needs.ts";
import {
  publishedDevices,
  publishedHome,
  publishedPlans,
  publishedTasks,
} from "../../bench/published.ts";
import { type GreedyCost, mostBytes, placeAtRandom, placeByCost } from "../../search/greedy.ts";
import { moved, tableParts } from "../../search/parts.ts";

const publishedNames: readonly [string, GreedyCost][] = [
  ["dim_greedy", "dim"],
  ["size_greedy", "size"],
  ["lookup_greedy", "lookup"],
  ["size_lookup_greedy", "sizeLookup"],
];

testIf(dataFile("sharding/ref_plans_csharding.json.gz"))(
  "the four greedy baselines give all 1,200 published plans, table by table",
  (t) => {
    const home = resolve(publishedHome);
    const tasks = publishedTasks(home);
    const plans = publishedPlans(home);
    let identical = 0;
    for (const devices of publishedDevices) {
      for (const [name, cost] of publishedNames) {
        const published = plans.get(`${devices}/${name}`) ?? [];
        for (const [task, tables] of tasks.entries()) {
          const placed = placeByCost(tables, { devices, bytes: 8 * 2 ** 30 }, cost);
          t.deepEqual(placed, published[task]?.placed, `${devices}/${name}, task ${task}`);
          identical++;
        }
      }
    }
    t.is(identical, 1200);
  },
);

function tableOf(rows: number, dim: number, poolingFactor: number): CostTable {
  return { rows, dim, poolingFactor, bins: new Array(17).fill(1 / 17) };
}

const tables = [
  tableOf(1000, 8, 1),
  tableOf(100, 64, 1),
  tableOf(10, 16, 100),
  tableOf(2000, 8, 1),
  tableOf(1000, 8, 1),
];

test("each greedy cost orders tables by the figure in its name", (t) => {
  const room = { devices: 2, bytes: Infinity };
  const expected: Record<GreedyCost, number[][]> = {
    // Columns 64; 16; then three times 8: largest table first, ties in reverse order.
    dim: [[1], [2, 3, 4, 0]],
    // Sizes 16,000; 8,000 twice; 6,400; 160.
    size: [
      [3, 1],
      [4, 0, 2],
    ],
    // 1,600; 64; then three times 8.
    lookup: [[2], [1, 3, 4, 0]],
    sizeLookup: [[2], [1, 3, 4, 0]],
  };
  for (const [cost, placed] of Object.entries(expected)) {
    t.deepEqual(placeByCost(tables, room, cost as GreedyCost), placed, cost);
  }
});

test("a full device is skipped, and a table without room ends the placement", (t) => {
  const [first] = tables;
  if (first === undefined) return t.fail();
  const bytes = weightBytesOf(first);
  const three = [first, { ...first, poolingFactor: 9 }, first];
  t.deepEqual(placeByCost(three, { devices: 3, bytes }, "lookup"), [[1], [2], [0]]);
  t.deepEqual(placeByCost(three, { devices: 2, bytes: 2 * bytes }, "lookup"), [[1], [2, 0]]);
  t.is(placeByCost(three, { devices: 2, bytes }, "lookup"), undefined);
  t.is(mostBytes(three, [[1], [2, 0]]), 2 * bytes);
});

test("a random placement depends on its seed alone, and places every table once", (t) => {
  const placed = placeAtRandom(50, 4, 7);
  t.deepEqual(placeAtRandom(50, 4, 7), placed);
  t.notDeepEqual(placeAtRandom(50, 4, 8), placed);
  const all = placed.flat().sort((a, b) => a - b);
  t.deepEqual(all, [...Array(50).keys()]);
});

test("halving preserves the columns of all tables", (t) => {
  const columns = (kind: "columns" | "rows", ...steps: number[]) => {
    const parts = tableParts([tableOf(10, 32, 1), tableOf(10, 4, 1)]);
    const after = moved(
      parts,
      steps.map((part) => ({ part, kind })),
    );
    return after.map(({ table }) => table.dim);
  };
  t.deepEqual(columns("columns", 0, 0, 2), [8, 4, 8, 8, 8]);
  t.throws(() => columns("columns", 1), { message: /a part with a move columns at 1/ });
  t.throws(() => columns("columns", 3), { message: /a part with a move columns at 3/ });
  t.throws(() => columns("rows", 0), { message: /a part with a move rows at 0/ });
});

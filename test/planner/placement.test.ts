// Placements of runs without a plan: every part is placed once, and the load is balanced.

import test from "ava";
import { quantumColumns as kernelQuantum } from "../../src/kernels/contract/kernels.ts";
import { checkCover } from "../../src/planner/assess.ts";
import { place, sliceRunsOf } from "../../src/planner/placement.ts";
import { quantumColumns, type Scheme, schemes } from "../../src/planner/shards.ts";
import { fc } from "../helpers/properties.ts";

const specs = fc.array(
  fc.record({
    rows: fc.integer({ min: 1, max: 1000 }),
    dim: fc.integer({ min: 1, max: 200 }),
    rowBlocks: fc.constantFrom(1, 2, 4, 8),
    scheme: fc.constantFrom(...schemes),
    cost: fc.nat(20),
  }),
  { maxLength: 12 },
);

test("every quantum of every table lies on one device, or a copy on each", (t) => {
  const devices = fc.record({
    hosts: fc.integer({ min: 1, max: 3 }),
    perHost: fc.integer({ min: 1, max: 4 }),
  });
  fc.assert(
    fc.property(specs, devices, (given, where) => {
      const tables = given.map((spec, i) => ({ ...spec, name: `T${i}` }));
      t.is(checkCover(tables, place(tables, where)), undefined);
    }),
  );
});

test("every slice is on exactly one device", (t) => {
  for (const slices of [1, 2, 4, 8, 16, 32]) {
    for (let devices = 1; devices <= 9; devices++) {
      const run = sliceRunsOf(slices, devices).flatMap(({ firstSlice, slices: own }) =>
        Array.from({ length: own }, (_, i) => firstSlice + i),
      );
      t.deepEqual(
        run,
        Array.from({ length: slices }, (_, slice) => slice),
      );
    }
  }
});

test("device loads differ by at most one table", (t) => {
  const costs = fc.array(fc.integer({ min: 1, max: 100 }), { minLength: 1, maxLength: 20 });
  fc.assert(
    fc.property(costs, fc.integer({ min: 1, max: 5 }), (all, devices) => {
      const tables = all.map((cost, i) => tableThat(`T${i}`, "table-wise", { cost }));
      const loads = Array.from({ length: devices }, () => 0);
      for (const { table, device } of place(tables, { hosts: 1, perHost: devices }).shards) {
        loads[Number(device)] = (loads[Number(device)] ?? 0) + (all[Number(table.slice(1))] ?? 0);
      }
      t.true(Math.max(...loads) - Math.min(...loads) <= Math.max(...all));
    }),
  );
});

test("rows and columns are cut into one part per device, as far as they can be", (t) => {
  const tables = [
    tableThat("rows", "row-wise", {}),
    tableThat("columns", "column-wise", {}),
    tableThat("copied", "data-parallel", {}),
    { ...tableThat("short", "row-wise", {}), rowBlocks: 1 },
  ];
  const { shards } = place(tables, { hosts: 1, perHost: 4 });
  const placed = (name: string) =>
    shards
      .filter(({ table }) => table === name)
      .map(({ firstBlock, blocks, firstQuantum, quanta, device }) => {
        return [firstBlock, blocks, firstQuantum, quanta, device];
      });
  t.deepEqual(placed("rows"), [
    [0, 2, 0, 2, 0],
    [2, 2, 0, 2, 1],
    [4, 2, 0, 2, 2],
    [6, 2, 0, 2, 3],
  ]);
  t.deepEqual(
    placed("columns").map((place_) => place_.slice(0, 4)),
    [
      [0, 8, 0, 1],
      [0, 8, 1, 1],
    ],
  );
  t.deepEqual(placed("copied"), [[0, 8, 0, 2, "all"]]);
  t.deepEqual(
    placed("short").map((place_) => place_.slice(0, 4)),
    [[0, 1, 0, 2]],
  );
});

function tableThat(name: string, scheme: Scheme, { cost = 1 }: { cost?: number }) {
  return { name, scheme, rows: 100, dim: 64, rowBlocks: 8, cost };
}

test("the planner and the kernels cut columns at the same quanta", (t) => {
  t.is(quantumColumns, kernelQuantum);
});

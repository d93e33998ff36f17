// Placements and the topology that follows from one: everything is somewhere, once, and fits.

import test from "ava";
import fc from "fast-check";
import { tableOptions } from "../../src/embedding/options.ts";
import { replicatedTables, shardsOf } from "../../src/embedding/shards.ts";
import { quantumColumns as kernelQuantum } from "../../src/kernels/kernels.ts";
import { place } from "../../src/planner/placement.ts";
import { quantumColumns } from "../../src/planner/shards.ts";

const slices = fc.constantFrom(1, 2, 4, 8, 16, 32);
const specs = fc.array(
  fc.record({
    rows: fc.integer({ min: 1, max: 1000 }),
    sharding: fc.constantFrom("table" as const, "data-parallel" as const),
    idsMax: fc.nat(20),
  }),
  { maxLength: 12 },
);

test("every shard and every slice is on exactly one device", (t) => {
  fc.assert(
    fc.property(specs, slices, fc.integer({ min: 1, max: 9 }), (given, count, devices) => {
      const tables = given.map((spec, i) =>
        tableOptions.parse({ name: `T${i}`, dim: 4, rows: spec.rows, sharding: spec.sharding }),
      );
      const shards = shardsOf(
        tables,
        given.map(({ idsMax }) => idsMax),
      );
      const placement = place({ slices: count, shards, devices });
      t.is(placement.devices.length, devices);
      const placed = placement.devices.flatMap((device) => [...device.shards]);
      t.deepEqual(
        placed.sort((a, b) => a - b),
        [...shards.keys()],
      );
      const run = placement.devices.flatMap(({ firstSlice, slices: own }) =>
        Array.from({ length: own }, (_, i) => firstSlice + i),
      );
      t.deepEqual(
        run,
        Array.from({ length: count }, (_, slice) => slice),
      );
      const tablesPlaced = [...shards.map(({ table }) => table), ...replicatedTables(tables)];
      t.deepEqual(
        tablesPlaced.sort((a, b) => a - b),
        [...tables.keys()],
      );
    }),
  );
});

test("no device has more load than the least plus one shard", (t) => {
  const costs = fc.array(fc.integer({ min: 1, max: 100 }), { minLength: 1, maxLength: 20 });
  fc.assert(
    fc.property(costs, fc.integer({ min: 1, max: 5 }), (all, devices) => {
      const shards = all.map((cost, shard) => ({ shard, cost, bytes: 1 }));
      const loads = place({ slices: 8, shards, devices }).devices.map((device) =>
        device.shards.reduce((sum, shard) => sum + (all[shard] ?? 0), 0),
      );
      t.true(Math.max(...loads) - Math.min(...loads) <= Math.max(...all));
    }),
  );
});

test("a shard knows its table, its bytes and what a sample costs there", (t) => {
  const tables = [
    tableOptions.parse({ name: "a", rows: 10, dim: 4 }),
    tableOptions.parse({ name: "b", rows: 10, dim: 4, sharding: "data-parallel" }),
    tableOptions.parse({ name: "c", rows: 20, dim: 4 }),
  ];
  t.deepEqual(shardsOf(tables, [3, 1, 0]), [
    { shard: 0, table: 0, name: "a", bytes: 160, cost: 12 },
    { shard: 1, table: 2, name: "c", bytes: 320, cost: 4 },
  ]);
  t.deepEqual(replicatedTables(tables), [1]);
});

test("the planner and the kernels cut columns alike", (t) => {
  t.is(quantumColumns, kernelQuantum);
});

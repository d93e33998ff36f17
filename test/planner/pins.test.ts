// Pins: a pinned part lies on its device, the rest of the plan is arranged around it, and every
// quantum of every table is still placed once.

import test from "ava";
import { checkCover } from "../../src/planner/assess.ts";
import { defaultConstants } from "../../src/planner/cost/constants.ts";
import {
  overlap,
  pinOf,
  pinPlan,
  type ShardPin,
  without,
  withoutPin,
  withPin,
} from "../../src/planner/pins.ts";
import { place } from "../../src/planner/placement.ts";
import { searchPlan } from "../../src/planner/search.ts";
import { type Plan, type PlannedTable, schemes } from "../../src/planner/shards.ts";
import { fc } from "../helpers/properties.ts";

const rowBlocks = 8;
const dim = 128; // Four quanta.

const tile = fc
  .tuple(fc.nat(7), fc.nat(3), fc.nat(7), fc.nat(3))
  .map(([firstBlock, firstQuantum, blocks, quanta]) => ({
    firstBlock,
    firstQuantum,
    blocks: 1 + Math.min(blocks, 7 - firstBlock),
    quanta: 1 + Math.min(quanta, 3 - firstQuantum),
  }));

const pins = (devices: number) =>
  fc.array(
    fc.record({
      table: fc.constantFrom("T0", "T1"),
      tile,
      device: fc.nat(devices - 1),
      isFrozen: fc.boolean(),
    }),
    { maxLength: 4 },
  );

/** Combines pins in the order of requests: a later pin takes rows from earlier ones. */
function allOf(given: readonly { tile: object }[]): ShardPin[] {
  return given.reduce<ShardPin[]>((all, { tile: of, ...pin }) => {
    return withPin(all, { ...of, ...pin } as ShardPin);
  }, []);
}

function areHeld(plan: Plan, held: readonly ShardPin[]): boolean {
  return held.every((pin) =>
    plan.shards.every((shard) => {
      const isHere = shard.device === pin.device || shard.device === "all";
      return shard.table !== pin.table || isHere || overlap(shard, pin) === undefined;
    }),
  );
}

const tables = (scheme: (typeof schemes)[number]) =>
  ["T0", "T1", "T2"].map((name) => ({ name, rows: 800, dim, rowBlocks, scheme, cost: 1 }));

test("a placement with pins covers every table once, and satisfies each pin", (t) => {
  const hosts = fc.record({ hosts: fc.constantFrom(1, 2), perHost: fc.constantFrom(1, 2, 3) });
  fc.assert(
    fc.property(hosts, fc.constantFrom(...schemes), pins(6), (devices, scheme, given) => {
      const all = allOf(given);
      const plan = pinPlan(place(tables(scheme), devices), all);
      t.is(checkCover(tables(scheme), plan), undefined);
      t.true(
        areHeld(
          plan,
          all.filter(({ device }) => device < devices.hosts * devices.perHost),
        ),
      );
      t.deepEqual(pinPlan(plan, all), plan);
    }),
  );
});

test("pinning a part moves nothing else of the plan", (t) => {
  const before = place(tables("row-wise"), { hosts: 1, perHost: 2 });
  const [first] = before.shards;
  const pin = { ...first, table: "T0", device: 1, isFrozen: false } as ShardPin;
  const after = pinPlan(before, [{ ...pin, firstBlock: 1, blocks: 2 }]);
  const ofT0 = after.shards.filter(({ table }) => table === "T0");
  t.deepEqual(
    ofT0.map(({ firstBlock, blocks, device }) => [firstBlock, blocks, device]),
    [
      [0, 1, 0],
      [1, 2, 1],
      [3, 1, 0],
      [4, 4, 1],
    ],
  );
  const others = ({ shards }: Plan) => shards.filter(({ table }) => table !== "T0");
  t.deepEqual(others(after), others(before));
});

test("the parts of a divided shard get their share of its cache", (t) => {
  const shard = { table: "T0", scheme: "table-wise", tier: "cached", device: 0 } as const;
  const whole = { firstBlock: 0, blocks: 8, firstQuantum: 0, quanta: 4 };
  const cache = { hbmBytes: 800, ddrBytes: 80 };
  const plan = { devices: { hosts: 1, perHost: 2 }, shards: [{ ...shard, ...whole, cache }] };
  const part = { ...whole, blocks: 2 };
  const pinned = pinPlan(plan, [{ table: "T0", ...part, device: 1, isFrozen: true }]);
  t.deepEqual(
    pinned.shards.map(({ device, cache: own }) => [device, own?.hbmBytes, own?.ddrBytes]),
    [
      [1, 200, 20],
      [0, 600, 60],
    ],
  );
});

test("the rest of a tile and its hole make up the tile, without overlap", (t) => {
  fc.assert(
    fc.property(tile, tile, (whole, hole) => {
      const rest = without(whole, hole);
      const inner = overlap(whole, hole);
      const all = inner === undefined ? rest : [...rest, inner];
      const area = all.reduce((sum, { blocks, quanta }) => sum + blocks * quanta, 0);
      t.is(area, whole.blocks * whole.quanta);
      for (const [i, one] of all.entries()) {
        t.deepEqual(overlap(one, whole), { ...one });
        t.true(all.slice(i + 1).every((other) => overlap(one, other) === undefined));
      }
    }),
  );
});

test("a later pin overrides earlier ones, and lifting one keeps the rest of them", (t) => {
  const whole = { table: "T0", firstBlock: 0, blocks: 8, firstQuantum: 0, quanta: 4 };
  const part = { ...whole, firstBlock: 2, blocks: 2 };
  const both = withPin([{ ...whole, device: 1, isFrozen: true }], {
    ...part,
    device: 0,
    isFrozen: false,
  });
  t.is(pinOf(both, part)?.device, 0);
  t.is(pinOf(both, { ...whole, blocks: 1 })?.device, 1);
  t.is(pinOf(withoutPin(both, part), part), undefined);
  t.is(pinOf(withoutPin(both, part), { ...whole, firstBlock: 7, blocks: 1 })?.device, 1);
});

test("a plan searched around pins satisfies them and balances the rest", (t) => {
  const planned = (name: string, own: readonly ShardPin[]): PlannedTable => ({
    ...{ name, rows: 80_000, dim, rowBlocks, poolingFactor: 10, zipf: 1.05 },
    ...{ weightBytes: 4, stateBytes: 0, rowBytes: 5, sumRounds: 0, tiers: ["memory"] },
    schemes,
    ...(own.length === 0 ? {} : { pins: own }),
  });
  const workload = {
    ...{
      batchSize: 4096,
      denseParameters: 1000,
      denseFlop: 1000,
      denseActivations: 100,
      denseOwnProducts: 0,
      denseLayers: 0,
    },
    readers: 1,
  };
  const numbers = fc.record({ hosts: fc.constantFrom(1, 2), perHost: fc.constantFrom(2, 3) });
  fc.assert(
    fc.property(numbers, pins(4), (devices, given) => {
      const all = allOf(given).filter(({ device }) => device < devices.hosts * devices.perHost);
      const own = ["T0", "T1", "T2", "T3"].map((name) =>
        planned(
          name,
          all.filter(({ table }) => table === name),
        ),
      );
      const setting = {
        workload: { ...workload, tables: own },
        devices,
        constants: defaultConstants,
      };
      const { best } = searchPlan(setting);
      t.truthy(best);
      if (best === undefined) return;
      t.is(checkCover(own, best.plan), undefined);
      t.true(areHeld(best.plan, all));
      t.true(
        best.plan.shards.every(({ table, device }) => {
          return device !== "all" || all.every((pin) => pin.table !== table);
        }),
      );
    }),
    { numRuns: 30 },
  );
  // All of T0 and T1 is pinned to device 0, so the rest goes to device 1.
  const whole = { firstBlock: 0, blocks: rowBlocks, firstQuantum: 0, quanta: 4, device: 0 };
  const onFirst = ["T0", "T1"].map((table) => ({ table, ...whole, isFrozen: true }));
  const own = ["T0", "T1", "T2", "T3"].map((name) => ({
    ...planned(
      name,
      onFirst.filter(({ table }) => table === name),
    ),
    schemes: ["table-wise"] as const,
  }));
  const devices = { hosts: 1, perHost: 2 };
  const constants = defaultConstants;
  const { best } = searchPlan({ workload: { ...workload, tables: own }, devices, constants });
  t.deepEqual(
    best?.plan.shards.map(({ device }) => device),
    [0, 0, 1, 1],
  );
});

// The learned search against its definition: every halving tried by hand, every placement of a few
// tables, and greedy placement without any cache.

import test from "ava";
import { type CostTable, isHalvable, weightBytesOf } from "../../../../src/planner/reuse.ts";
import {
  drawnNetworks,
  drawnTables,
  halved,
  plainCompute,
  plainCost,
} from "../../../../test/helpers/cost-networks.ts";
import { fc } from "../../../../test/helpers/properties.ts";
import { searchLearned } from "../../search/beam-search.ts";
import type { CostNetworks } from "../../search/cost-networks.ts";
import type { DeviceRoom } from "../../search/greedy.ts";
import { mostBytes } from "../../search/greedy.ts";
import { gridScales } from "../../search/grid-search.ts";
import { moved, tableParts } from "../../search/parts.ts";

/** The inner search by definition: no cache, every scale from the start. */
function plainGrid(networks: CostNetworks, tables: readonly CostTable[], room: DeviceRoom): number {
  const alone = tables.map((table) => plainCompute(networks, [table]));
  const order = [...tables.keys()].sort((a, b) => (alone[b] ?? 0) - (alone[a] ?? 0) || a - b);
  const share = tables.reduce((sum, { dim }) => sum + dim, 0) / room.devices;
  const bytesOf = (own: readonly CostTable[]) =>
    own.reduce((all, one) => all + weightBytesOf(one), 0);
  let best = Infinity;
  scales: for (const scale of gridScales) {
    const placed = Array.from({ length: room.devices }, (): number[] => []);
    for (const index of order) {
      const able = [...placed.keys()].filter((device) => {
        const own = [...(placed[device] ?? []), index].map((i) => tables[i] as CostTable);
        const columns = own.reduce((sum, { dim }) => sum + dim, 0);
        return bytesOf(own) <= room.bytes && columns <= scale * share;
      });
      const load = (device: number) => (placed[device] ?? []).map((i) => tables[i] as CostTable);
      const [to] = able.sort((a, b) => {
        const less = plainCompute(networks, load(a)) - plainCompute(networks, load(b));
        return less || bytesOf(load(a)) - bytesOf(load(b)) || a - b;
      });
      if (to === undefined) continue scales;
      placed[to]?.push(index);
    }
    best = Math.min(best, plainCost(networks, tables, placed));
  }
  return best;
}

const drawn = fc.record({
  seed: fc.integer({ min: 1, max: 1000 }),
  count: fc.integer({ min: 1, max: 12 }),
  devices: fc.integer({ min: 1, max: 4 }),
  /** The memory of a device, relative to an even share of the weights. */
  memory: fc.constantFrom(1.1, 1.5, 3, Infinity),
});

function given({ seed, count, devices, memory }: { [Key in keyof typeof example]: number }) {
  const tables = drawnTables(count, seed);
  const all = tables.reduce((sum, table) => sum + weightBytesOf(table), 0);
  return {
    networks: drawnNetworks(devices, seed),
    tables,
    room: { devices, bytes: (memory * all) / devices },
  };
}
const example = { seed: 1, count: 1, devices: 1, memory: 1 };

test("without halving, the search equals plain greedy placement", (t) => {
  fc.assert(
    fc.property(drawn, (values) => {
      const { networks, tables, room } = given(values);
      const { whole = Infinity } = searchLearned(networks, tables, room, { steps: 0 });
      const plain = plainGrid(networks, tables, room);
      if (plain === Infinity || whole === Infinity) t.is(whole, plain);
      else t.true(Math.abs(whole - plain) <= 1e-6 * plain, `${whole} and ${plain}`);
    }),
    { numRuns: 60 },
  );
});

test("one step finds the best halving, two steps with a wide beam the best pair", (t) => {
  fc.assert(
    fc.property(drawn, (values) => {
      const { networks, tables, room } = given({ ...values, count: Math.min(values.count, 5) });
      const able = (all: readonly CostTable[]) =>
        [...all.keys()].filter((i) => isHalvable(all[i] as CostTable));
      const ways: number[][] = [[]];
      for (const first of able(tables)) {
        ways.push([first]);
        for (const second of able(halved(tables, [first]))) ways.push([first, second]);
      }
      const wide = { candidates: 100, beam: 100 };
      for (const steps of [1, 2]) {
        const { published: found = Infinity, isComplete } = searchLearned(networks, tables, room, {
          ...wide,
          steps,
        });
        const tried = ways.filter((way) => way.length <= steps);
        const plain = Math.min(
          ...tried.map((way) => plainGrid(networks, halved(tables, way), room)),
        );
        t.true(isComplete);
        if (plain === Infinity || found === Infinity) t.is(found, plain);
        else t.true(Math.abs(found - plain) <= 1e-6 * plain, `${found} and ${plain}`);
      }
    }),
    { numRuns: 25 },
  );
});

test("a plan has every column once, keeps to memory, and has the cost that it states", (t) => {
  fc.assert(
    fc.property(drawn, (values) => {
      const { networks, tables, room } = given(values);
      const { best, whole } = searchLearned(networks, tables, room, { steps: 4 });
      if (best === undefined) return;
      const parts = moved(tableParts(tables), best.steps);
      const after = parts.map(({ table }) => table);
      const all = best.placed.flat().sort((a, b) => a - b);
      t.deepEqual(all, [...after.keys()]);
      t.true(mostBytes(after, best.placed) <= room.bytes);
      const cost = plainCost(networks, after, best.placed);
      t.true(Math.abs(best.cost - cost) <= 1e-6 * cost);
      t.true(best.cost <= (whole ?? Infinity));
      const columns = new Array<number>(tables.length).fill(0);
      for (const { place, table } of parts) columns[place] = (columns[place] ?? 0) + table.dim;
      t.deepEqual(
        columns,
        tables.map(({ dim }) => dim),
      );
    }),
    { numRuns: 60 },
  );
});

test("no plan beats the best of all placements, and few are much worse", (t) => {
  let worst = 1;
  let sum = 0;
  const cases = 20;
  for (let seed = 1; seed <= cases; seed++) {
    const networks = drawnNetworks(2, seed);
    const tables = drawnTables(7, seed);
    const found = searchLearned(networks, tables, { devices: 2, bytes: Infinity }, { steps: 0 });
    let optimum = Infinity;
    for (let bits = 0; bits < 2 ** tables.length; bits++) {
      const placed = [0, 1].map((device) => {
        return [...tables.keys()].filter((i) => ((bits >> i) & 1) === device);
      });
      optimum = Math.min(optimum, plainCost(networks, tables, placed));
    }
    const ratio = (found.best?.cost ?? Infinity) / optimum;
    t.true(ratio >= 1 - 1e-9);
    worst = Math.max(worst, ratio);
    sum += ratio;
  }
  t.log(`mean ${(sum / cases).toFixed(3)}, worst ${worst.toFixed(3)} of the optimum`);
  t.true(sum / cases < 1.1);
  t.true(worst < 1.6);
});

test("a table wider than every column limit is placed by the last scale", (t) => {
  const networks = drawnNetworks(4, 3);
  const tables = drawnTables(5, 3).map((table, i) => ({ ...table, dim: i === 0 ? 128 : 4 }));
  const room = { devices: 4, bytes: Infinity };
  const published = gridScales.slice(0, -1);
  t.is(searchLearned(networks, tables, room, { scales: published, steps: 0 }).best, undefined);
  t.truthy(searchLearned(networks, tables, room, { steps: 0 }).best);
});

test("a table larger than any device is halved until it fits", (t) => {
  const networks = drawnNetworks(4, 5);
  const tables = drawnTables(5, 5).map((table, i) => ({ ...table, dim: i === 2 ? 128 : 4 }));
  const bytes = weightBytesOf({ rows: tables[2]?.rows ?? 0, dim: 48 });
  const { best, whole } = searchLearned(networks, tables, { devices: 4, bytes });
  t.is(whole, undefined);
  t.true((best?.steps.filter(({ part }) => part === 2).length ?? 0) >= 2);
});

test("a stopped search has the best plan so far, and equal effort gives equal plans", (t) => {
  const networks = drawnNetworks(3, 9);
  const tables = drawnTables(20, 9);
  const room = { devices: 3, bytes: Infinity };
  let asked = 0;
  const stopped = searchLearned(networks, tables, room, { isOver: () => ++asked > 30 });
  t.false(stopped.isComplete);
  const { placements } = stopped;
  t.true(placements > 10 && placements <= 31);
  const counted = searchLearned(networks, tables, room, { placementsMax: placements });
  t.is(counted.published, stopped.published);
  t.deepEqual(searchLearned(networks, tables, room, { placementsMax: placements }), counted);
  const first = searchLearned(networks, tables, room, { isOver: () => true });
  t.is(first.placements, 1);
  t.is(first.best?.cost, first.whole);
  const whole = searchLearned(networks, tables, room);
  t.true(whole.isComplete);
  t.true((whole.best?.cost ?? Infinity) <= (stopped.best?.cost ?? 0));
  t.true(whole.cache.computed < whole.cache.asked / 2, "most states come from the cache");
});

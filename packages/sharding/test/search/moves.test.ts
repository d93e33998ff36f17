// Moves of the learned search beyond halved columns (rows, caching and copies), against exhaustive
// search over all moves and placements.

import test from "ava";
import { type CostTable, weightBytesOf } from "../../../../src/planner/reuse.ts";
import {
  drawnNetworks,
  drawnTables,
  plainCompute,
} from "../../../../test/helpers/cost-networks.ts";
import { rounds } from "../../../../test/helpers/thinned.ts";
import { searchParts } from "../../search/beam-search.ts";
import type { CostNetworks } from "../../search/cost-networks.ts";
import type { DeviceRoom } from "../../search/greedy.ts";
import { type Move, moved, moveKinds, once, type TablePart } from "../../search/parts.ts";

/** Random tables that may be cut by rows and columns, and cached or copied at a cost. */
function drawnParts(count: number, seed: number): TablePart<number>[] {
  return drawnTables(count, seed).map((table, place) => {
    const make = (own: CostTable, tier: "memory" | "cached" | "copied"): TablePart<number> => {
      const bytes = weightBytesOf(own) / (tier === "cached" ? 10 : 1);
      const formulaMs = { memory: 0.1, cached: 3, copied: weightBytesOf(own) / 1e6 }[tier];
      const halves = (change: Partial<CostTable>) =>
        once(() => [0, 1].map(() => make({ ...own, ...change }, tier)));
      const { dim, rows, poolingFactor } = own;
      const isCopied = tier === "copied";
      const moves: TablePart<number>["moves"] = new Map([
        ...(isCopied || dim < 8 ? [] : [["columns", halves({ dim: dim / 2 })] as const]),
        ...(isCopied
          ? []
          : [["rows", halves({ rows: rows / 2, poolingFactor: poolingFactor / 2 })] as const]),
        ...(tier === "memory" ? [["cached", once(() => [make(own, "cached")])] as const] : []),
        ...(tier === "memory" ? [["copied", once(() => [make(own, "copied")])] as const] : []),
      ]);
      const name = JSON.stringify([own, tier]);
      return { name, table: own, bytes, formulaMs, isCopied, place, moves };
    };
    return make(table, "memory");
  });
}

/**
 * The cost of a placement in milliseconds by definition; copies add their formula costs to every
 * device.
 */
function plainCost(
  networks: CostNetworks,
  parts: readonly TablePart[],
  placed: readonly (readonly number[])[],
): number {
  const copies = parts.filter(({ isCopied }) => isCopied);
  const own = placed.map((indices) => indices.map((index) => parts[index] as TablePart));
  const tables = own.map((held) => held.map(({ table }) => table));
  // The exchanges depend on the columns exchanged, and on the lateness due to all computation.
  const compute = own.map((held, device) => {
    const formulas = [...held, ...copies].reduce((sum, { formulaMs }) => sum + formulaMs, 0);
    return formulas + plainCompute(networks, tables[device] ?? []);
  });
  const columns = tables.map((held) => held.reduce((sum, { dim }) => sum + dim, 0));
  const through = (network: CostNetworks["forward"], inputs: readonly number[]) =>
    network.layers.reduce<number[]>(
      (x, { weight, bias, relu }) =>
        [...bias].map((first, o) => {
          const value = x.reduce((sum, xi, i) => sum + (weight[o * x.length + i] ?? 0) * xi, first);
          return relu ? Math.max(0, value) : value;
        }),
      inputs.map((value, i) => {
        const { mean, deviation } = network.standard;
        return (value - (mean[i] ?? 0)) / (deviation[i] ?? 1);
      }),
    );
  const back = through(networks.backward, columns);
  const before = compute.map((ms, device) => ms + (back[device] ?? 0));
  const first = Math.min(...before);
  const late = before.map((ms) => Math.min(networks.lateMax, ms - first));
  const forward = through(networks.forward, [...columns, ...late]);
  return Math.max(...before.map((ms, device) => ms + (forward[device] ?? 0)));
}

/** The bytes of the fullest device, copies included. */
function fullest(parts: readonly TablePart[], placed: readonly (readonly number[])[]): number {
  const copies = parts.filter(({ isCopied }) => isCopied);
  const sums = placed.map((own) =>
    [...own.map((index) => parts[index] as TablePart), ...copies].reduce((sum, part) => {
      return sum + part.bytes;
    }, 0),
  );
  return Math.max(...sums);
}

/** The least cost of all placements of parts on devices that have room. */
function bestPlacement(
  networks: CostNetworks,
  parts: readonly TablePart[],
  { devices, bytes }: DeviceRoom,
): number {
  const free = [...parts.keys()].filter((index) => parts[index]?.isCopied === false);
  let best = Infinity;
  for (let code = 0; code < devices ** free.length; code++) {
    const placed = Array.from({ length: devices }, (_, device) =>
      free.filter((_, i) => Math.floor(code / devices ** i) % devices === device),
    );
    if (fullest(parts, placed) > bytes) continue;
    best = Math.min(best, plainCost(networks, parts, placed));
  }
  return best;
}

/** All sequences of `steps` moves. */
function waysOf(parts: readonly TablePart[], steps: number): Move[][] {
  if (steps === 0) return [[]];
  const first = [...parts.entries()].flatMap(([part, { moves }]) =>
    moveKinds.filter((kind) => moves.has(kind)).map((kind) => ({ part, kind })),
  );
  return [
    [],
    ...first.flatMap((move) => {
      return waysOf(moved(parts, [move]), steps - 1).map((rest) => [move, ...rest]);
    }),
  ];
}

test("no plan beats the best of all moves and placements, and few are much worse", (t) => {
  const ratios: number[] = [];
  const kinds = new Set<string>();
  const seeds = rounds("seeds of moved tables", 8, 24);
  for (let seed = 1; seed <= seeds; seed++) {
    const networks = drawnNetworks(2, seed);
    const parts = drawnParts(3, seed);
    const all = parts.reduce((sum, { bytes }) => sum + bytes, 0);
    const room = { devices: 2, bytes: seed % 3 === 0 ? Infinity : (0.3 + 0.1 * (seed % 5)) * all };
    const { best } = searchParts(networks, parts, room, { steps: 2, beam: 100, candidates: 100 });
    const optimum = Math.min(
      ...waysOf(parts, 2).map((way) => bestPlacement(networks, moved(parts, way), room)),
    );
    if (best === undefined) {
      // Greedy placement could miss the only room; here it finds none only if there is none.
      t.is(optimum, Infinity);
      continue;
    }
    const after = moved(parts, best.steps);
    for (const { kind } of best.steps) kinds.add(kind);
    t.true(fullest(after, best.placed) <= room.bytes);
    const cost = plainCost(networks, after, best.placed);
    t.true(Math.abs(best.cost - cost) <= 1e-6 * cost, `${best.cost} is ${cost}`);
    const placed = best.placed.flat().sort((a, b) => a - b);
    t.deepEqual(
      placed,
      [...after.keys()].filter((index) => after[index]?.isCopied === false),
    );
    ratios.push(best.cost / optimum);
    t.true(best.cost >= optimum * (1 - 1e-9));
  }
  const mean = ratios.reduce((sum, ratio) => sum + ratio, 0) / ratios.length;
  t.log(`mean ${mean.toFixed(3)}, worst ${Math.max(...ratios).toFixed(3)} of the optimum`);
  t.true(mean < 1.1);
  t.true(Math.max(...ratios) < 1.6);
  t.deepEqual([...kinds].sort(), [...moveKinds].sort(), "every kind of move helps somewhere");
});

test("each half of the rows has half the ids, and all columns", (t) => {
  const [part] = drawnParts(1, 4);
  const [one, other] = part?.moves.get("rows")?.() ?? [];
  t.is(one?.table.poolingFactor, (part?.table.poolingFactor ?? 0) / 2);
  t.is(one?.table.dim, part?.table.dim);
  const networks = drawnNetworks(2, 4);
  const room = { devices: 2, bytes: (part?.bytes ?? 0) / 2 };
  const narrow = { ...(part as TablePart), moves: new Map([["rows", () => [one, other]]]) };
  const { best, whole } = searchParts(networks, [narrow as TablePart], room);
  t.is(whole, undefined);
  t.deepEqual(best?.steps, [{ part: 0, kind: "rows" }]);
  t.deepEqual(
    best?.placed.map(({ length }) => length),
    [1, 1],
  );
});

test("copies need room on every device", (t) => {
  const networks = drawnNetworks(2, 6);
  const parts = drawnParts(2, 6);
  const copies = parts.map((part) => part.moves.get("copied")?.()[0] as TablePart);
  const all = copies.reduce((sum, { bytes }) => sum + bytes, 0);
  t.is(searchParts(networks, copies, { devices: 2, bytes: all - 1 }).best, undefined);
  const { best } = searchParts(networks, copies, { devices: 2, bytes: all });
  t.deepEqual(best?.placed, [[], []]);
});

test("a stopped search with every move has the best so far, equal for equal effort", (t) => {
  const networks = drawnNetworks(3, 9);
  const parts = drawnParts(12, 9);
  const room = { devices: 3, bytes: Infinity };
  let asked = 0;
  const stopped = searchParts(networks, parts, room, { isOver: () => ++asked > 30 });
  t.false(stopped.isComplete);
  const { placements: placementsMax } = stopped;
  t.true(placementsMax > 10);
  const counted = searchParts(networks, drawnParts(12, 9), room, { placementsMax });
  t.is(counted.published, stopped.published);
  t.deepEqual(searchParts(networks, parts, room, { placementsMax }), counted);
  const long = searchParts(networks, parts, room);
  t.true((long.best?.cost ?? Infinity) <= (stopped.best?.cost ?? 0));
});

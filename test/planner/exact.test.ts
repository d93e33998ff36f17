// The exact partition against all possible placements, groups of hosts included.

import test from "ava";
import { isTiny, partitionExactly } from "../../src/planner/exact.ts";
import {
  type Load,
  type LoadGroup,
  partitionGreedily,
  type Room,
} from "../../src/planner/partition.ts";
import { fc } from "../helpers/properties.ts";

const load = fc.record({
  cost: fc.integer({ min: 0, max: 9 }),
  bytes: fc.integer({ min: 0, max: 9 }),
  hostBytes: fc.integer({ min: 0, max: 9 }),
});
const group: fc.Arbitrary<LoadGroup> = fc.oneof(
  fc.record({
    level: fc.constant("device" as const),
    parts: fc.array(load, { minLength: 1, maxLength: 1 }),
  }),
  fc.record({
    level: fc.constant("host" as const),
    parts: fc.array(load, { minLength: 2, maxLength: 2 }),
  }),
  fc.record({
    level: fc.constant("all" as const),
    parts: fc.array(load, { minLength: 1, maxLength: 1 }),
  }),
);

const nothingIn: Load = { cost: 0, bytes: 0 };

/** The least maximum cost over all placements; Infinity if none fits. */
function leastOf(
  groups: readonly LoadGroup[],
  { devices, bytes: most, hostBytes = Infinity }: Room,
) {
  const { hosts, perHost } = devices;
  const W = hosts * perHost;
  const all = Array.from({ length: W }, (_, device) => device);
  const visit = (
    rest: readonly LoadGroup[],
    cost: number[],
    bytes: number[],
    onHosts: number[],
  ): number => {
    const [first, ...others] = rest;
    if (first === undefined) {
      const isOver = bytes.some((held) => held > most) || onHosts.some((held) => held > hostBytes);
      return isOver ? Infinity : Math.max(...cost);
    }
    const [a, b] = first.parts;
    const choices = all.flatMap((one) => {
      if (first.level === "device") return [[[one]]];
      if (first.level === "all") return one === 0 ? [[all]] : [];
      const host = Math.floor(one / perHost);
      const mates = all.filter((two) => two !== one && Math.floor(two / perHost) === host);
      return mates.map((two) => [[one], [two]]);
    });
    return Math.min(
      Infinity,
      ...choices.map((places) => {
        const nextCost = [...cost];
        const nextBytes = [...bytes];
        const nextHosts = [...onHosts];
        for (const [part, own] of places.entries()) {
          const { cost: c, bytes: m, hostBytes: h = 0 } = (part === 0 ? a : b) ?? nothingIn;
          for (const device of own) {
            nextCost[device] = (nextCost[device] ?? 0) + c;
            nextBytes[device] = (nextBytes[device] ?? 0) + m;
            const host = Math.floor(device / perHost);
            nextHosts[host] = (nextHosts[host] ?? 0) + h;
          }
        }
        return visit(others, nextCost, nextBytes, nextHosts);
      }),
    );
  };
  const nothing = new Array<number>(W).fill(0);
  return visit(groups, nothing, nothing, nothing.slice(0, hosts));
}

test("the exact partition finds the cheapest placement, and any that fits", (t) => {
  const rooms = fc.record({
    devices: fc.constantFrom({ hosts: 1, perHost: 2 }, { hosts: 2, perHost: 2 }),
    bytes: fc.integer({ min: 0, max: 40 }),
    hostBytes: fc.option(fc.integer({ min: 0, max: 40 }), { nil: undefined }),
  });
  fc.assert(
    fc.property(fc.array(group, { maxLength: 4 }), rooms, (groups, room) => {
      const found = partitionExactly(groups, room, Infinity);
      const least = leastOf(groups, room);
      t.is(found === undefined ? Infinity : Math.max(...found.cost), least);
      const greedy = partitionGreedily(groups, room);
      for (const { bytes, hostBytes } of [found, greedy].filter((one) => one !== undefined)) {
        t.true(bytes.every((held) => held <= room.bytes));
        t.true(hostBytes.every((held) => held <= (room.hostBytes ?? Infinity)));
      }
      t.true(greedy === undefined || Math.max(...greedy.cost) >= least);
      if (found === undefined) return;
      // The search returns no placement if the known one is as good.
      t.is(partitionExactly(groups, room, least), undefined);
    }),
    { numRuns: 300 },
  );
});

test("only problems that can be searched exhaustively count as tiny", (t) => {
  const one: LoadGroup = { level: "device", parts: [{ cost: 1, bytes: 1 }] };
  const copies: LoadGroup = { ...one, level: "all" };
  t.true(isTiny(new Array<LoadGroup>(14).fill(one), 2));
  t.false(isTiny(new Array<LoadGroup>(15).fill(one), 2));
  t.true(isTiny(new Array<LoadGroup>(50).fill(copies), 128));
});

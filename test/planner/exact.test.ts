// The exact partition against all possible placements, groups of hosts included.

import test from "ava";
import { isTiny, partitionExactly } from "../../src/planner/exact.ts";
import type { LoadGroup, Room } from "../../src/planner/partition.ts";
import { fc } from "../helpers/properties.ts";

const load = fc.record({
  cost: fc.integer({ min: 0, max: 9 }),
  bytes: fc.integer({ min: 0, max: 9 }),
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

/** The least maximum cost over all placements; Infinity if none fits. */
function leastOf(groups: readonly LoadGroup[], { devices, bytes: most }: Room): number {
  const { hosts, perHost } = devices;
  const W = hosts * perHost;
  const all = Array.from({ length: W }, (_, device) => device);
  const visit = (rest: readonly LoadGroup[], cost: number[], bytes: number[]): number => {
    const [first, ...others] = rest;
    if (first === undefined)
      return bytes.some((held) => held > most) ? Infinity : Math.max(...cost);
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
        for (const [part, own] of places.entries()) {
          const { cost: c, bytes: m } = (part === 0 ? a : b) ?? { cost: 0, bytes: 0 };
          for (const device of own) {
            nextCost[device] = (nextCost[device] ?? 0) + c;
            nextBytes[device] = (nextBytes[device] ?? 0) + m;
          }
        }
        return visit(others, nextCost, nextBytes);
      }),
    );
  };
  const nothing = new Array<number>(W).fill(0);
  return visit(groups, nothing, nothing);
}

test("the exact partition finds the cheapest placement, and any that fits", (t) => {
  const rooms = fc.record({
    devices: fc.constantFrom({ hosts: 1, perHost: 2 }, { hosts: 2, perHost: 2 }),
    bytes: fc.integer({ min: 0, max: 40 }),
  });
  fc.assert(
    fc.property(fc.array(group, { maxLength: 4 }), rooms, (groups, room) => {
      const found = partitionExactly(groups, room, Infinity);
      const least = leastOf(groups, room);
      t.is(found === undefined ? Infinity : Math.max(...found.cost), least);
      if (found === undefined) return;
      t.true(found.bytes.every((bytes) => bytes <= room.bytes));
      // None is returned if the known placement is as good.
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

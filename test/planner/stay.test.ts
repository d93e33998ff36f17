// Parts stay on their devices when other devices are lost or added, if that is about as fast.

import test from "ava";
import { type PlacedPart, stayInPlace } from "../../src/planner/stay.ts";

/** A part that is the only one of its table; `cost` is also its bytes. */
function part(table: number, device: number | "all", cost = 1): PlacedPart {
  const tile = { firstBlock: 0, blocks: 1, firstQuantum: 0, quanta: 1 };
  return { table: `t${table}`, device, cost, bytes: cost, ...tile };
}

const spread = (parts: number, devices: number) =>
  Array.from({ length: parts }, (_, i) => part(i, i % devices));

const moved = (former: readonly PlacedPart[], now: readonly PlacedPart[] | undefined) =>
  now?.filter(({ table, device }) => {
    return former.find((one) => one.table === table)?.device !== device;
  }).length;

test("of a lost device only its own parts move, to the devices with least work", (t) => {
  const former = spread(12, 4);
  const rankOf = (device: number) => (device < 3 ? device : undefined);
  const now = stayInPlace({ former, searched: spread(12, 3), devices: 3, rankOf });
  t.is(moved(former, now), 3);
  t.deepEqual(
    [0, 1, 2].map((rank) => now?.filter(({ device }) => device === rank).length),
    [4, 4, 4],
  );
});

test("a new device takes over parts until the work is even", (t) => {
  const former = spread(12, 3);
  const now = stayInPlace({ former, searched: spread(12, 4), devices: 4, rankOf: (one) => one });
  t.is(moved(former, now), 3);
});

test("a plan that is better by more than a quarter, or copies other tables, is taken instead", (t) => {
  const rankOf = (device: number) => (device < 2 ? device : undefined);
  const former = [part(0, 0, 4), part(1, 1, 4), part(2, 2, 4)];
  const halves = [0, 1].map((device) => ({ ...part(3, device, 6), table: "t" }));
  t.is(stayInPlace({ former, searched: halves, devices: 2, rankOf }), undefined);
  const copied = [part(0, "all"), part(1, 1, 12)];
  t.is(stayInPlace({ former, searched: copied, devices: 2, rankOf }), undefined);
});

test("a slow device takes fewer of the lost parts, and one with little memory no excess", (t) => {
  const former = spread(12, 3);
  const rankOf = (device: number) => (device < 2 ? device : undefined);
  const alike = { memory: 1, rowSpeed: 1, denseSpeed: 1 };
  const on = (fleet: readonly (typeof alike)[], searched: readonly PlacedPart[]) =>
    stayInPlace({ former, searched, devices: 2, rankOf, fleet });
  const byTwo = Array.from({ length: 12 }, (_, i) => part(i, i % 3 === 0 ? 1 : 0));
  const slow = on([alike, { ...alike, rowSpeed: 0.5 }], byTwo);
  t.is(slow?.filter(({ device }) => device === 0).length, 8);
  const small = { ...alike, memory: 0.4 };
  t.is(
    on(
      [alike, small],
      byTwo.map((own, i) => ({ ...own, device: i < 9 ? 0 : 1 })),
    ),
    undefined,
  );
});

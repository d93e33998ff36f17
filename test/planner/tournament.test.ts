// The tournament tree of a partition, against a search through all loads.

import test from "ava";
import { partitionGreedily } from "../../src/planner/partition.ts";
import { createTournament } from "../../src/planner/tournament.ts";
import { RandomStream } from "../../src/ports/random.ts";

test("the least allowed load is found among few candidates, the lower index of equal ones", (t) => {
  const random = new RandomStream(7, 0);
  let calls = 0;
  let finds = 0;
  for (const count of [1, 2, 3, 8, 21, 1000]) {
    // Few different loads, so that many are equal.
    const loads = Float64Array.from({ length: count }, () => Math.floor(8 * random.uniform()));
    const tournament = createTournament(loads);
    for (let round = 0; round < 300; round++) {
      const full = new Set([0, 1, 2].map(() => Math.floor(count * random.uniform())));
      const found = tournament.find((index) => {
        calls++;
        return !full.has(index);
      });
      finds++;
      const allowed = [...loads.keys()].filter((index) => !full.has(index));
      const least = Math.min(...allowed.map((index) => loads[index] ?? 0));
      t.is(found, allowed.find((index) => loads[index] === least) ?? -1);
      if (found < 0) continue;
      loads[found] = Math.floor(8 * random.uniform());
      tournament.set(found, loads[found]);
    }
  }
  // A search tries at most the three full candidates in vain.
  t.true(calls <= 4 * finds, `${calls} of ${finds}`);
});

test("20,000 parts and a host's parts find places among 4,096 devices, each for few loads", (t) => {
  const random = new RandomStream(8, 0);
  const part = () => ({ cost: Math.exp(random.normal()), bytes: 1 });
  const groups = Array.from({ length: 20_000 }, (_, i) =>
    i % 10 === 0
      ? { level: "host" as const, parts: Array.from({ length: 4 }, part) }
      : { level: "device" as const, parts: [part()] },
  );
  const found = partitionGreedily(groups, { devices: { hosts: 512, perHost: 8 }, bytes: 20 });
  const sum = found?.cost.reduce((all, own) => all + own, 0) ?? 0;
  const most = found?.cost.reduce((all, own) => Math.max(all, own), 0) ?? 0;
  const hottest = groups.flatMap(({ parts }) => parts).reduce((a, b) => Math.max(a, b.cost), 0);
  // Longest processing time first is within 4/3 of the least maximum (Graham 1969).
  t.true(most <= (4 / 3) * Math.max(hottest, sum / 4096) && most >= sum / 4096);
  t.true(found?.bytes.every((bytes) => bytes <= 20) ?? false);
});

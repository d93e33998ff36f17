// Power is lost at the disk operations of whole runs, for every kind of writing, and again during
// the recovery. The job must end as its reference run does. `npm run test:all` tries every
// operation and one pair in eleven, `osiris chaos --crash-points` every pair.

import test, { type ExecutionContext } from "ava";
import {
  crashing,
  crashKinds,
  crashPairs,
  crashPoints,
  operationsOf,
} from "../../../chaos/simulation/crash-points.ts";
import type { Scenario } from "../../../chaos/simulation/scenario.ts";
import { simulate } from "../../../chaos/simulation/simulate.ts";
import { thinned } from "../../helpers/thinned.ts";

/** Checks that a scenario ends as its reference run; resolves to the number of power losses. */
async function survives(t: ExecutionContext, scenario: Scenario): Promise<number> {
  const { failure, reason, injected } = await simulate(scenario);
  t.is(failure, undefined, `${JSON.stringify(scenario)}: ${reason}`);
  return injected.power ?? 0;
}

/** `npm test` tries one in this many operations of each kind of run. */
const nth = { checkpoints: 29, tiers: 107, dynamic: 97, lease: 59, stored: 5 } as const;

for (const kind of crashKinds) {
  test.serial(`P7: power lost at any operation of a run: ${kind}`, async (t) => {
    const all = await crashPoints(kind);
    // A bucket needs fewer requests than a disk needs operations.
    t.true(all.length > (kind === "stored" ? 15 : 80), `${all.length} operations`);
    const some = thinned(`power lost at an operation: ${kind}`, all, nth[kind]);
    let losses = 0;
    for (const scenario of some) losses += await survives(t, scenario);
    // The number of operations depends on the seed, too: a run may not reach the last ones.
    t.true(losses >= (kind === "checkpoints" ? 1 : 0.8) * some.length, `${losses}`);
    t.log(`${all.length} operations`);
  });
}

test.serial("P7: power lost twice: again while a run recovers", async (t) => {
  // Pairs up to 48 apart, at every distance in rotation.
  const pairs = (await crashPairs("checkpoints", 48)).filter((_, i) => i % 11 === 0);
  const all = thinned("power lost at two operations", pairs, 91);
  let lost = 0;
  for (const scenario of all) if ((await survives(t, scenario)) === 2) lost++;
  t.true(lost > (all.length * 2) / 3, `${lost} of ${all.length}`);
  t.log(`${lost} pairs of ${await operationsOf("checkpoints")} operations`);
});

test.serial(
  "P7: rows in tiers on disk are persisted in a run, and reused after its restart",
  async (t) => {
    const { last, failure, generations } = await simulate(crashing("tiers", []));
    t.is(failure, undefined);
    t.is(generations, 2);
    t.true(last.filter((line) => line.endsWith(" run.durable")).length > 2);
  },
);

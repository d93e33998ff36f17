// Power is lost at every single operation that a whole run does on its disk, while it prepares its
// data, claims its generations, saves and restores; and again while it recovers from that. What was
// not synced survives, is lost or is torn, by the seed. The job must end as its twin does.

import test, { type ExecutionContext } from "ava";
import type { Scenario } from "../../chaos/simulation/scenario.ts";
import { simulate } from "../../chaos/simulation/simulate.ts";
import { thinned } from "../helpers/thinned.ts";

/** The shortest of the jobs, with three checkpoints, on one device. */
const short = 3;

function crashing(operations: readonly number[], seed = 1): Scenario {
  return {
    seed,
    job: short,
    shape: { devices: [1], speed: { turnMs: 0.1, startMs: 1 }, delayMs: [0, 0.1] },
    calmMs: 20_000,
    faults: operations.map((count) => ({ kind: "power", atMs: 0, operations: count })),
  };
}

/** Resolves to how often power was lost. */
async function survives(t: ExecutionContext, scenario: Scenario): Promise<number> {
  const { failure, reason, struck } = await simulate(scenario);
  t.is(failure, undefined, `${JSON.stringify(scenario)}: ${reason}`);
  return struck.power ?? 0;
}

async function operationsOfARun(): Promise<number> {
  return (await simulate(crashing([]))).operations;
}

test("power lost at any operation of a run", async (t) => {
  const operations = await operationsOfARun();
  t.true(operations > 100, `${operations} operations`);
  const all = Array.from({ length: operations }, (_, i) => i + 1);
  for (const at of thinned(all)) t.is(await survives(t, crashing([at], at)), 1);
  t.log(`${operations} operations`);
});

/** Between the distances of a pair; with `SOAK=1` there is every one of them. */
const stride = process.env.SOAK === "1" ? 1 : 48;

test("power lost twice: again while a run recovers", async (t) => {
  const operations = await operationsOfARun();
  let pairs = 0;
  // Every operation is the first of a pair; the second comes at all distances by turns.
  for (let at = 1; at <= operations; at++) {
    for (let after = 1 + ((7 * at) % stride); after <= 48; after += stride) {
      const losses = await survives(t, crashing([at, at + after], 1000 * at + after));
      if (losses === 2) pairs++;
    }
  }
  t.true(pairs > (operations * 32) / stride);
  t.log(`${pairs} pairs`);
});

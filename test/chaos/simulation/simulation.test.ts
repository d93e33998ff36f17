// The simulator itself: it is deterministic, and it simulates the real system.

import { join } from "node:path";
import test from "ava";
import { jobs } from "../../../chaos/simulation/jobs.ts";
import type { Scenario } from "../../../chaos/simulation/scenario.ts";
import { simulateSeeds } from "../../../chaos/simulation/seeds.ts";
import { referenceOf, simulate, simulateSeed } from "../../../chaos/simulation/simulate.ts";
import { Cluster, type JobOptions } from "../../../index.ts";
import { startDirectory } from "../../data/data-files.ts";
import { someOrAll, thinned } from "../../helpers/thinned.ts";

const calm: Scenario = {
  seed: 7,
  job: 0,
  shape: { devices: [2], speed: { turnMs: 1, startMs: 100 }, delayMs: [0, 2] },
  faultsMs: 0,
  faults: [],
};

test.serial("simulated and real runs of the same jobs have the same results", async (t) => {
  await using cluster = await Cluster.start({ devices: 2 });
  for (const [index, job] of thinned("jobs, simulated and real", [...jobs.entries()], 16)) {
    const directory = startDirectory(t);
    const real = await cluster.submit({
      ...job,
      data: { ...job.data, cache: join(directory, "cache") } as JobOptions["data"],
      checkpoint: { ...job.checkpoint, directory: join(directory, "run") },
      stepDeadlineMs: 120_000,
    });
    const { digest, step, history } = await real.result();
    const reference = await referenceOf(index);
    t.deepEqual(
      [reference.result.digest, reference.result.step, reference.result.history],
      [digest, step, history],
      `job ${index}`,
    );
    const simulated = await simulate({ ...calm, job: index });
    t.is(simulated.failure, undefined, simulated.reason);
    t.is(simulated.generations, 1);
  }
});

test.serial(
  "the same scenario gives the same run, to the last event; another seed gives another",
  async (t) => {
    const traces = new Map<number, string>();
    for (const seed of someOrAll("seeds that run twice", [11], [3, 11])) {
      const [first, second] = [await simulateSeed(seed), await simulateSeed(seed)];
      t.is(first.failure, undefined, first.reason);
      t.is(first.trace, second.trace);
      traces.set(seed, first.trace);
      t.is(first.events, second.events);
      t.deepEqual(first.last, second.last);
    }
    // The same traces in a fresh thread: no step of the simulation waits for loading a module.
    await simulateSeeds({
      seeds: [...traces.keys()].reverse(),
      jobs: 1,
      onVerdict: ({ scenario, trace }) => t.is(traces.get(scenario.seed), trace),
    });
    const [one, other] = [await simulate(calm), await simulate({ ...calm, seed: 8 })];
    t.not(one.trace, other.trace);
  },
);

// Simulated clusters in the thread of the test. `simulateSeeds` starts threads, each of which loads
// the product and computes the reference runs again: for a few seeds that costs more than the seeds
// themselves.

import { type ClusterShape, SimulatedCluster } from "../../chaos/simulation/cluster.ts";
import { addJob, jobs } from "../../chaos/simulation/jobs.ts";
import { Monitor, type ReferenceRun } from "../../chaos/simulation/monitor.ts";
import { drawScenario, type FaultKind, type Scenario } from "../../chaos/simulation/scenario.ts";
import { referenceOf, simulate } from "../../chaos/simulation/simulate.ts";
import { World } from "../../chaos/simulation/world.ts";
import type { JobOptions, RunEvent, RunResult } from "../../index.ts";

export interface SeedsHere {
  /** The count of injected faults, by kind. */
  readonly faults: Readonly<Record<string, number>>;
  /** One sentence for each seed that broke an invariant. */
  readonly failures: readonly string[];
}

/**
 * Simulates each seed with faults of these kinds; `changes`: options that override the seed's
 * draws.
 */
export async function simulateHere(
  seeds: readonly number[],
  kinds?: readonly FaultKind[],
  changes: (seed: number) => Partial<Scenario> = () => ({}),
): Promise<SeedsHere> {
  const faults: Record<string, number> = {};
  const failures: string[] = [];
  for (const seed of seeds) {
    const scenario = { ...drawScenario(seed, kinds), ...changes(seed) };
    const { failure, reason, injected } = await simulate(scenario);
    if (failure !== undefined) failures.push(`seed ${seed}: ${failure}: ${reason}`);
    for (const [kind, count] of Object.entries(injected)) {
      faults[kind] = (faults[kind] ?? 0) + count;
    }
  }
  return { faults, failures };
}

/** A completed simulated run. */
export interface SimulatedStory {
  readonly events: readonly RunEvent[];
  readonly result: RunResult;
  /** The count of leader terms, if there is a lease. */
  readonly terms: number;
}

export interface StoryOptions {
  /** The devices of each host; the leader's own process comes first. @default one device */
  readonly devices?: readonly number[];
  /** The duration of the leader's lease; if given, a second process stands by. */
  readonly leaseMs?: number;
  /** Called once, at the first event of the type `at`. */
  readonly breakIt?: (cluster: SimulatedCluster) => void;
  /** The event type at which `breakIt` is called. @default "run.checkpointed" */
  readonly at?: RunEvent["type"];
  /** The run to compare each committed step and the end with; if left out, nothing is compared. */
  readonly reference?: ReferenceRun;
  /** Decides how threads interleave. @default 5 */
  readonly seed?: number;
}

/** Runs the job of this number to its end. @throws the violation that the monitor finds. */
export async function storyOf(job: number, options: StoryOptions = {}): Promise<SimulatedStory> {
  const { devices = [1], leaseMs, breakIt, at = "run.checkpointed", reference, seed = 5 } = options;
  const own = jobs[job];
  if (own === undefined) throw new RangeError(`There is no job ${job}`);
  const world = new World(seed);
  const speed = { turnMs: 0.5, startMs: 10 };
  const plain: ClusterShape = { devices, speed, delayMs: [0, 1] };
  const shape = leaseMs === undefined ? plain : { ...plain, leaseMs };
  const cluster = new SimulatedCluster(world, { shape, job: own, seed });
  try {
    const monitor = new Monitor(cluster, reference);
    let isBroken = false;
    cluster.onEvent(({ type }) => {
      if (isBroken || type !== at) return;
      isBroken = true;
      breakIt?.(cluster);
    });
    await world.run(() => cluster.ending !== undefined, 300_000);
    if (world.crash !== undefined) throw world.crash.error;
    const { ending } = cluster;
    if (ending?.type !== "run.finished") throw new Error(`It ended: ${JSON.stringify(ending)}`);
    monitor.checkResult(ending.result);
    return { events: [...cluster.events], result: ending.result, terms: cluster.terms };
  } finally {
    cluster.close();
  }
}

/** Ends a thread, `device-2` or `bridge-1`, as its host would see it. */
export function loseThread(cluster: SimulatedCluster, name: string): void {
  cluster.threads.running.find((one) => one.name.endsWith(`/${name}`))?.lose("it ended");
}

/**
 * Runs a job on one device, then on three of one host and on two hosts, losing a device at the
 * first checkpoint. Asserts that every committed step, the history and the model are the same.
 * Returns the result, the generations of the runs that lost a device, and the events of the last
 * run.
 */
export async function oneModelAfterLosses(job: Partial<JobOptions>) {
  const number = addJob(job);
  const reference = await referenceOf(number);
  const generations: number[] = [];
  let events: readonly RunEvent[] = [];
  for (const devices of [[3], [1, 1]]) {
    const breakIt = (cluster: SimulatedCluster) => loseThread(cluster, "device-1");
    const story = await storyOf(number, { devices, breakIt, reference });
    generations.push(story.result.generation);
    events = story.events;
  }
  return { result: reference.result, generations, events };
}

/** The data of small simulated jobs, which have eight steps. */
export const simulatedData = {
  kind: "synthetic",
  samples: 120,
  dense: 4,
  batchSize: 16,
  cache: "/cache",
} as const satisfies JobOptions["data"];

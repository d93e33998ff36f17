// Simulates one scenario in its own world, against the reference run of its job. First faults are
// injected while the safety invariants are checked; then follows a calm period in which the job
// must end.

import { SimulatedCluster } from "./cluster.ts";
import { Injector } from "./injector.ts";
import { jobs, storedDirectory } from "./jobs.ts";
import { Monitor, type ReferenceRun, SafetyError } from "./monitor.ts";
import { drawScenario, type FaultKind, type Scenario } from "./scenario.ts";
import { World } from "./world.ts";

/** How a scenario failed. */
export type Failure = "crash" | "safety" | "liveness";

export interface SimulationVerdict {
  readonly scenario: Scenario;
  readonly failure?: Failure;
  /** Reason of the failure, in one sentence. */
  readonly reason?: string;
  /** Faults injected, by kind. */
  readonly injected: Readonly<Partial<Record<FaultKind, number>>>;
  /** Operations that changed the disk. */
  readonly operations: number;
  /** Number of generations of the job. */
  readonly generations: number;
  /** Number of leadership terms, under a lease. */
  readonly terms: number;
  readonly virtualMs: number;
  /** Hash of the trace of all events, and their number. */
  readonly trace: string;
  readonly events: number;
  /** The last lines of the trace. */
  readonly last: readonly string[];
}

/** Deadline of a job after the faults have ended, in virtual time. */
export const convergeMs = 120_000;

export function simulateSeed(seed: number): Promise<SimulationVerdict> {
  return simulate(drawScenario(seed));
}

/** Simulates a scenario. Deterministic: every repetition has the same trace. */
export async function simulate(scenario: Scenario): Promise<SimulationVerdict> {
  return run(scenario, await referenceOf(scenario.job));
}

const references = new Map<number, Promise<ReferenceRun>>();

/** The reference run of a job: without faults, on one device. */
export function referenceOf(job: number): Promise<ReferenceRun> {
  let reference = references.get(job);
  if (reference === undefined) {
    reference = runReference(job);
    references.set(job, reference);
  }
  return reference;
}

/**
 * The job's result, and the digest of every step, from a second run with a checkpoint after each
 * step.
 */
async function runReference(job: number): Promise<ReferenceRun> {
  const { result } = await undisturbed(job);
  const { digests } = await undisturbed(job, 1);
  return { digests, result };
}

async function undisturbed(job: number, everySteps?: number): Promise<ReferenceRun> {
  const shape = { devices: [1], speed: { turnMs: 0.1, startMs: 1 }, delayMs: [0, 0.1] } as const;
  const scenario = { seed: 0, job, shape, faultsMs: 0, faults: [] };
  let reference: ReferenceRun | undefined;
  const found = (one: ReferenceRun) => {
    reference = one;
  };
  const verdict = await run(scenario, undefined, { found, everySteps });
  if (reference === undefined)
    throw new Error(`The reference run of job ${job} did not end: ${verdict.reason}`);
  return reference;
}

async function run(
  scenario: Scenario,
  reference: ReferenceRun | undefined,
  options: { readonly everySteps?: number | undefined; found?(reference: ReferenceRun): void } = {},
): Promise<SimulationVerdict> {
  const { seed, shape, faultsMs } = scenario;
  const drawn = jobs[scenario.job];
  if (drawn === undefined) throw new RangeError(`There is no job ${scenario.job}`);
  const { everySteps = drawn.checkpoint?.everySteps ?? 1, found } = options;
  const checkpoint = { ...drawn.checkpoint, everySteps };
  if (scenario.isStored === true) checkpoint.directory = storedDirectory;
  const job = { ...drawn, checkpoint };
  const world = new World(seed);
  const unhandled = (error: unknown) => {
    world.crash ??= { where: "an unhandled promise rejection", error };
  };
  process.on("unhandledRejection", unhandled);
  const cluster = new SimulatedCluster(world, { shape, job, seed });
  try {
    const monitor = new Monitor(cluster, reference);
    const injector = new Injector(cluster, scenario);
    const isOver = () => cluster.ending !== undefined;
    await world.run(isOver, faultsMs);
    injector.heal();
    await world.run(isOver, faultsMs + convergeMs);
    const failed = verdictOf(cluster, monitor, injector);
    const { hash, events, last } = world.trace;
    if (failed === undefined && cluster.ending?.type === "run.finished") {
      found?.({ digests: monitor.digests, result: cluster.ending.result });
    }
    return {
      scenario,
      ...failed,
      injected: Object.fromEntries(injector.injected),
      operations: injector.operations,
      generations: Math.max(0, ...cluster.events.map(({ generation }) => generation)),
      terms: cluster.terms,
      virtualMs: world.clock.now(),
      trace: hash,
      events,
      last,
    };
  } finally {
    cluster.close();
    process.off("unhandledRejection", unhandled);
  }
}

/** Error codes with which a job may end where a file that cannot be rebuilt was damaged. */
const damageCodes = new Set(["CHECKPOINT_CORRUPT"]);

function verdictOf(
  { world, ending, isDamaged }: SimulatedCluster,
  monitor: Monitor,
  injector: Injector,
): { readonly failure: Failure; readonly reason: string } | undefined {
  if (world.crash !== undefined) {
    const { where, error } = world.crash;
    const failure = error instanceof SafetyError ? "safety" : "crash";
    const detail = error instanceof Error ? (error.stack ?? error.message) : String(error);
    return { failure, reason: `${where}: ${detail}` };
  }
  if (injector.alive.length > 0) {
    return { failure: "crash", reason: `${injector.alive.length} faults were not healed` };
  }
  if (ending === undefined) {
    return {
      failure: "liveness",
      reason: `the job had not ended ${convergeMs} ms after the last fault was healed`,
    };
  }
  if (ending.type === "run.failed") {
    if (isDamaged && damageCodes.has(ending.error.code)) return undefined; // It is reported.
    return {
      failure: "liveness",
      reason: `the job ended with ${ending.error.code}: ${ending.error.message}`,
    };
  }
  if (ending.type !== "run.finished") return undefined;
  try {
    monitor.checkResult(ending.result);
  } catch (error) {
    return { failure: "safety", reason: String(error) };
  }
  return undefined;
}

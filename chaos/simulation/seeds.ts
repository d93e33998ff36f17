// Simulates many scenarios on several threads of this process, each in a separate world.

import { Worker } from "node:worker_threads";
import { shrink } from "../faults/shrink.ts";
import { drawScenario, type FaultKind, type Scenario } from "./scenario.ts";
import { type Failure, type SimulationVerdict, simulate } from "./simulate.ts";

export interface ScenariosOptions {
  /** Number of threads. @default 2 */
  readonly jobs?: number;
  /** Called with each verdict, in the order of completion. */
  readonly onVerdict?: (verdict: SimulationVerdict) => void;
  /** Once aborted, no further seed is started. */
  readonly signal?: AbortSignal;
}

export interface SeedsOptions extends ScenariosOptions {
  readonly seeds: Iterable<number>;
  /** Kinds of faults. @default the kinds that a seed draws */
  readonly kinds?: readonly FaultKind[];
}

/** Summary of many scenarios. */
export interface SeedsSummary {
  readonly schedules: number;
  /** Faults injected, by kind. */
  readonly faults: Readonly<Record<string, number>>;
  readonly generations: number;
  /** Leadership terms under a lease. */
  readonly terms: number;
  /** Number of events, and virtual time, over all scenarios. */
  readonly events: number;
  readonly virtualSeconds: number;
  readonly failures: readonly {
    readonly seed: number;
    readonly failure: Failure;
    readonly reason: string;
  }[];
}

/** Simulates the scenario of each seed. */
export function simulateSeeds({ seeds, kinds, ...how }: SeedsOptions): Promise<SeedsSummary> {
  return simulateAll(
    Array.from(seeds, (seed) => drawScenario(seed, kinds)),
    how,
  );
}

export async function simulateAll(
  scenarios: readonly Scenario[],
  { jobs = 2, onVerdict = () => {}, signal }: ScenariosOptions = {},
): Promise<SeedsSummary> {
  const left = scenarios.values();
  const faults: Record<string, number> = {};
  const total = { schedules: 0, generations: 0, terms: 0, events: 0, virtualMs: 0 };
  const failures: SeedsSummary["failures"][number][] = [];
  const note = (verdict: SimulationVerdict) => {
    total.schedules++;
    total.generations += verdict.generations;
    total.terms += verdict.terms;
    total.events += verdict.events;
    total.virtualMs += verdict.virtualMs;
    for (const [kind, count] of Object.entries(verdict.injected)) {
      faults[kind] = (faults[kind] ?? 0) + count;
    }
    const { failure, reason = "" } = verdict;
    if (failure !== undefined) failures.push({ seed: verdict.scenario.seed, failure, reason });
    onVerdict(verdict);
  };
  const work = async () => {
    const worker = new Worker(new URL("./scenario-entry.js", import.meta.url));
    try {
      for (let next = left.next(); !next.done && signal?.aborted !== true; next = left.next()) {
        note(await answerOf(worker, next.value));
      }
    } finally {
      await worker.terminate();
    }
  };
  await Promise.all(Array.from({ length: jobs }, work));
  failures.sort((a, b) => a.seed - b.seed);
  const { virtualMs, ...rest } = total;
  return { ...rest, faults, virtualSeconds: virtualMs / 1000, failures };
}

function answerOf(worker: Worker, scenario: Scenario): Promise<SimulationVerdict> {
  return new Promise((resolve, reject) => {
    worker.once("message", (verdict: SimulationVerdict) => {
      worker.off("error", reject);
      resolve(verdict);
    });
    worker.once("error", reject);
    worker.postMessage(scenario);
  });
}

/** Shrinks a failing scenario to a minimal set of faults with which it fails in the same way. */
export async function shrinkScenario(scenario: Scenario, failure: Failure): Promise<Scenario> {
  const faults = await shrink(scenario.faults, async (part) => {
    return (await simulate({ ...scenario, faults: part })).failure === failure;
  });
  return { ...scenario, faults };
}

// Many seeds, on several threads of this process, each a world of its own.

import { Worker } from "node:worker_threads";
import { shrink } from "../shrink.ts";
import type { FaultKind, Scenario } from "./scenario.ts";
import { type Failure, type SimulationVerdict, simulate } from "./simulate.ts";

export interface SeedsOptions {
  readonly seeds: Iterable<number>;
  /** Threads that share them. @default 2 */
  readonly jobs?: number;
  /** Faults of these kinds alone. @default those that a seed draws */
  readonly kinds?: readonly FaultKind[];
  /** Told of each, in the order in which they end. */
  readonly onVerdict?: (verdict: SimulationVerdict) => void;
  /** Begins no further seed once aborted. */
  readonly signal?: AbortSignal;
}

/** What many seeds came to. */
export interface SeedsSummary {
  readonly schedules: number;
  /** Faults that struck, by kind. */
  readonly faults: Readonly<Record<string, number>>;
  readonly generations: number;
  /** Of roots under a lease. */
  readonly terms: number;
  /** Events of all of them, and the virtual time that they took. */
  readonly events: number;
  readonly virtualSeconds: number;
  readonly failures: readonly {
    readonly seed: number;
    readonly failure: Failure;
    readonly reason: string;
  }[];
}

/** What a thread is asked, and what it answers. */
export type SeedTask = { readonly seed: number; readonly kinds?: readonly FaultKind[] };

/** Simulates each seed. */
export async function simulateSeeds(options: SeedsOptions): Promise<SeedsSummary> {
  const { jobs = 2, kinds, onVerdict = () => {}, signal } = options;
  const left = options.seeds[Symbol.iterator]();
  const faults: Record<string, number> = {};
  const total = { schedules: 0, generations: 0, terms: 0, events: 0, virtualMs: 0 };
  const failures: SeedsSummary["failures"][number][] = [];
  const note = (verdict: SimulationVerdict) => {
    total.schedules++;
    total.generations += verdict.generations;
    total.terms += verdict.terms;
    total.events += verdict.events;
    total.virtualMs += verdict.virtualMs;
    for (const [kind, count] of Object.entries(verdict.struck)) {
      faults[kind] = (faults[kind] ?? 0) + count;
    }
    const { failure, reason = "" } = verdict;
    if (failure !== undefined) failures.push({ seed: verdict.scenario.seed, failure, reason });
    onVerdict(verdict);
  };
  const work = async () => {
    const worker = new Worker(new URL("./seed-entry.js", import.meta.url));
    try {
      for (let next = left.next(); !next.done && signal?.aborted !== true; next = left.next()) {
        note(await answerOf(worker, { seed: next.value, ...(kinds && { kinds }) }));
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

function answerOf(worker: Worker, task: SeedTask): Promise<SimulationVerdict> {
  return new Promise((resolve, reject) => {
    worker.once("message", (verdict: SimulationVerdict) => {
      worker.off("error", reject);
      resolve(verdict);
    });
    worker.once("error", reject);
    worker.postMessage(task);
  });
}

/** The least of a failing scenario's faults with which it fails in the same way. */
export async function shrinkScenario(scenario: Scenario, failure: Failure): Promise<Scenario> {
  const faults = await shrink(scenario.faults, async (part) => {
    return (await simulate({ ...scenario, faults: part })).failure === failure;
  });
  return { ...scenario, faults };
}

// The launcher of a process of a faulted run: starts most threads unchanged, and wraps the ports of
// threads that a fault may affect.

import type { ThreadTask } from "../../actors/threads/thread-program.ts";
import { entryFile } from "../../src/ports/entry-file.ts";
import {
  type Launcher,
  launchWorkers,
  type Thread,
  workerLauncher,
} from "../../src/ports/launcher.ts";
import { Injections } from "./injections.ts";
import type { Fault } from "./schedule.ts";
import type { PlacedFault } from "./thread-faults.ts";

/** The schedule, as passed to the processes of a faulted run. Plain data. */
export interface FaultPlan {
  readonly faults: readonly Fault[];
  /** Directory of the injections. */
  readonly injectionsIn: string;
  readonly stepDeadlineMs: number;
  /** The run's checkpoint directory. */
  readonly directory: string;
}

/** The start data of a thread that may have faults injected. */
export interface FaultyThread extends Omit<FaultPlan, "faults"> {
  readonly task: ThreadTask;
  /** Faults that this thread injects itself. */
  readonly faults: readonly PlacedFault[];
  /** Faults injected from outside while this thread waits at their gates. */
  readonly gates: readonly PlacedFault[];
}

export interface FaultyLauncher extends Launcher {
  /** Kills the thread of an actor (`device:1`); false if none runs in this process. */
  kill(actor: string): boolean;
}

const entry = entryFile("threads", "chaos/faults/faulty-entry.js");

/**
 * Heap limit of a thread that must run out of memory: reached soon, without harming other
 * processes.
 */
const heapMiB = 64;

/** Whether a fault is injected from outside the threads, at a moment of device 0. */
export function isFromOutside(fault: Fault): boolean {
  return !("where" in fault) || !fault.where.startsWith("thread:");
}

/** Creates a launcher of worker threads that injects the faults of a schedule. */
export function faultyLauncher(plan: FaultPlan): FaultyLauncher {
  const threads = new Map<string, Pick<Thread<never, never>, "kill">>();
  return {
    start<Command, Report>(own: URL, data: unknown, name: string): Thread<Command, Report> {
      const actor = name.replace("-", ":");
      const thread: Thread<Command, Report> = start(plan, { own, data, name, actor });
      threads.set(actor, thread);
      void thread.ended.then(() => {
        if (threads.get(actor) === thread) threads.delete(actor);
      });
      return thread;
    },
    kill(actor) {
      const thread = threads.get(actor);
      thread?.kill();
      return thread !== undefined;
    },
  };
}

function start<Command, Report>(
  { faults: all, ...place }: FaultPlan,
  given: {
    readonly own: URL;
    readonly data: unknown;
    readonly name: string;
    readonly actor: string;
  },
): Thread<Command, Report> {
  const { own, data, name, actor } = given;
  const task = data as ThreadTask;
  const injections = new Injections(place.injectionsIn);
  const generation = "spec" in task ? task.spec.generation : 0;
  const due = dueFaults(all, injections, generation);
  const faults = due.filter(({ fault }) => "where" in fault && fault.where === `thread:${actor}`);
  const gates = actor === "device:0" ? due.filter(({ fault }) => isFromOutside(fault)) : [];
  if (faults.length === 0 && gates.length === 0) return workerLauncher.start(own, data, name);
  const isExhausted = faults.some(({ fault }) => fault.what === "out-of-memory");
  const launcher = isExhausted
    ? launchWorkers({ resourceLimits: { maxOldGenerationSizeMb: heapMiB } })
    : workerLauncher;
  const faulty: FaultyThread = { ...place, task, faults, gates };
  return launcher.start(entry, faulty, name);
}

/** Faults that are not yet injected and may occur in this generation. */
function dueFaults(
  all: readonly Fault[],
  injections: Injections,
  generation: number,
): PlacedFault[] {
  const placed = all.map((fault, index) => ({ fault, index }));
  return placed.filter(({ fault, index }) => {
    if (injections.injected(index) !== undefined || injections.arrived(index) !== undefined)
      return false;
    if (fault.when.during !== "recovery") return true;
    const before = placed.slice(0, index);
    return generation > 1 && before.some((one) => injections.injected(one.index) !== undefined);
  });
}

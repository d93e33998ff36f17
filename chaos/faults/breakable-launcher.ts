// A launcher of threads that can be broken: killed from outside by name, or from inside at an exact
// point of an exact step.

import type { ParticipantTask } from "../../actors/threads/thread-program.ts";
import { entryFile } from "../../src/ports/entry-file.ts";
import { type Launcher, type Thread, workerLauncher } from "../../src/ports/launcher.ts";
import type { ThreadFault } from "./breaking-cells.ts";
import type { BreakingTask } from "./breaking-entry.ts";

export interface BreakableLauncher {
  /** For `Cluster.start`. */
  readonly launcher: Launcher;
  /** Ends the thread of an actor (`device:1`, `reader:0`, `prepare`); false where none runs. */
  kill(actor: string): boolean;
  /** Actors with a running thread. */
  running(): string[];
  /** Whether the last fault that was planned for a thread of the actor has been injected. */
  isInjected(actor: string): boolean;
  /** Ends the pause that was planned for a thread of the actor and lasts. */
  goOn(actor: string): void;
  /** How many threads have been started so far. */
  started(): number;
  /**
   * From now on these wait for their moment, each for one thread; what was planned is forgotten.
   */
  plan(faults: readonly (ThreadFault | CommandFault)[]): void;
}

/** A device's thread is killed as soon as it was told to do something. */
export interface CommandFault {
  /** `device:1` */
  readonly actor: string;
  readonly generation: number;
  /** At the first command of this kind in the generation. */
  readonly command: "run" | "evaluate" | "save";
}

const unbroken = new Int32Array(1);

const breakingEntry = entryFile("threads", "chaos/faults/breaking-entry.js");

/** Worker threads, until something breaks them. */
export function breakableLauncher(): BreakableLauncher {
  const threads = new Map<string, Pick<Thread<never, never>, "kill" | "ended">>();
  const injections = new Map<string, Int32Array>();
  let faults: readonly (ThreadFault | CommandFault)[] = [];
  let started = 0;
  const launcher: Launcher = {
    start<Command, Report>(entry: URL, data: unknown, name: string): Thread<Command, Report> {
      const actor = name.replace("-", ":");
      const { spec } = data as Partial<ParticipantTask>;
      const fault = faults.find(
        (one) => one.actor === actor && one.generation === spec?.generation,
      );
      faults = faults.filter((one) => one !== fault);
      const start = (): Thread<Command, Report> => {
        if (fault === undefined || "command" in fault) {
          return workerLauncher.start(entry, data, name);
        }
        const injected = new Int32Array(new SharedArrayBuffer(4));
        injections.set(actor, injected);
        const task = { task: data, fault, injected } as BreakingTask;
        return workerLauncher.start(breakingEntry, task, name);
      };
      const thread =
        fault !== undefined && "command" in fault ? killedAt(start(), fault.command) : start();
      started++;
      threads.set(actor, thread);
      void thread.ended.then(() => {
        if (threads.get(actor) === thread) threads.delete(actor);
      });
      return thread;
    },
  };
  return {
    launcher,
    kill(actor) {
      const thread = threads.get(actor);
      thread?.kill();
      return thread !== undefined;
    },
    running: () => [...threads.keys()],
    isInjected: (actor) => Atomics.load(injections.get(actor) ?? unbroken, 0) > 0,
    goOn(actor) {
      const injected = injections.get(actor);
      if (injected === undefined || Atomics.load(injected, 0) === 0) return;
      Atomics.store(injected, 0, 2);
      Atomics.notify(injected, 0);
    },
    started: () => started,
    plan(next) {
      faults = next;
    },
  };
}

function killedAt<Command, Report>(
  thread: Thread<Command, Report>,
  command: CommandFault["command"],
): Thread<Command, Report> {
  return {
    ...thread,
    send(given) {
      thread.send(given);
      if ((given as { type?: unknown }).type === command) thread.kill();
    },
  };
}

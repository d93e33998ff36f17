// A launcher of threads with fault injection: kills a thread from outside by name, or from inside
// at an exact point of an exact step.

import type { ParticipantTask } from "../../actors/threads/thread-program.ts";
import { entryFile } from "../../src/ports/entry-file.ts";
import { type Launcher, type Thread, workerLauncher } from "../../src/ports/launcher.ts";
import type { ThreadFault } from "./breaking-cells.ts";
import type { BreakingTask } from "./breaking-entry.ts";

export interface BreakableLauncher {
  /** The launcher option of `Cluster.start`. */
  readonly launcher: Launcher;
  /** Kills the thread of an actor (`device:1`, `reader:0`, `prepare`); false if none runs. */
  kill(actor: string): boolean;
  /** Actors with a running thread. */
  running(): string[];
  /** Whether the last planned fault of a thread of the actor has been injected. */
  isInjected(actor: string): boolean;
  /** Ends the current planned pause of the actor's thread. */
  goOn(actor: string): void;
  /** Number of threads started so far. */
  started(): number;
  /** Replaces the planned faults; each applies to one thread. */
  plan(faults: readonly (ThreadFault | CommandFault)[]): void;
}

/** A fault that kills a device's thread when it receives a command. */
export interface CommandFault {
  /** `device:1` */
  readonly actor: string;
  readonly generation: number;
  /** The kind of command; its first occurrence in the generation counts. */
  readonly command: "run" | "evaluate" | "save";
}

const unbroken = new Int32Array(1);

const breakingEntry = entryFile("threads", "chaos/faults/breaking-entry.js");

/** Creates a launcher of worker threads with planned faults. */
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

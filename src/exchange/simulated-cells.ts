// Simulated cells in one thread: every participant is an async task, every wait parks its task, and
// a seeded random stream picks the task that resumes. The same seed gives the same interleaving. If
// no task can resume, a parked wait fails with a StepTimeoutError that names it. A task's condition
// is evaluated when the task parks, and when a store wakes its participant, as in a sleeping
// thread.
//
// Each host has its own words. With a simulated clock, the clock is one more task, so that frames
// and timers of bridges are interleaved with the devices, too.

import { GenerationAbortedError, StepTimeoutError } from "../errors/errors.ts";
import type { SimulatedClock } from "../ports/clock.ts";
import { purposes, RandomStream } from "../ports/random.ts";
import type { Cells } from "./cells.ts";

interface Parked {
  readonly host: number;
  readonly participant: number;
  /** Whether the condition is to be evaluated. */
  isAwake: boolean;
  /**
   * Whether the condition was true. It is not evaluated again, as a bridge's condition consumes the
   * work that it finds.
   */
  isMet: boolean;
  readonly wait: () => string;
  readonly isTrue: () => boolean;
  readonly resume: () => void;
  readonly fail: (error: Error) => void;
}

export interface SimulatedCells {
  cellsOf(participant: number, host?: number): Cells;
  /** Runs the tasks to their end, one at a time. Rejects with the first failure. */
  run(tasks: readonly (() => Promise<void>)[]): Promise<void>;
  /**
   * Ends the generation, on one host or on all hosts: every present or future wait of a task there
   * throws.
   */
  abort(host?: number): void;
}

/** While tasks can resume, the clock advances in one of this many turns. */
const clockTurns = 8;

export function createSimulatedCells(options: {
  readonly cells: number;
  readonly seed: number;
  readonly generation?: number;
  /** @default 1 */
  readonly hosts?: number;
  readonly clock?: SimulatedClock;
}): SimulatedCells {
  const { clock, generation = 1 } = options;
  const hosts = Array.from({ length: options.hosts ?? 1 }, () => ({
    words: new Int32Array(options.cells),
    isAborted: false,
  }));
  const random = new RandomStream(options.seed, purposes.faults);
  let parked: Parked[] = [];

  const isAborted = (host: number) => hosts[host]?.isAborted === true;
  const abort = (host?: number) => {
    for (const [index, one] of hosts.entries()) one.isAborted ||= index === (host ?? index);
  };

  const isReady = (task: Parked): boolean => {
    if (isAborted(task.host)) return true;
    if (task.isAwake && !task.isMet) task.isMet = task.isAwake = task.isTrue();
    return task.isMet;
  };

  function step(): void {
    const ready = parked.filter(isReady);
    if (clock !== undefined && (ready.length === 0 || random.below(clockTurns) === 0)) {
      if (clock.runNext()) return;
    }
    const next = ready[random.below(ready.length)];
    const stuck = parked[0];
    if (next !== undefined) {
      parked = parked.filter((task) => task !== next);
      if (isAborted(next.host)) next.fail(new GenerationAbortedError(generation));
      else next.resume();
    } else if (stuck !== undefined) {
      parked = parked.filter((task) => task !== stuck);
      abort();
      stuck.fail(new StepTimeoutError(stuck.wait(), 0));
    }
  }

  return {
    cellsOf: (participant, host = 0) => ({
      load: (cell) => hosts[host]?.words[cell] ?? 0,
      store(cell, value, wake) {
        const words = hosts[host]?.words;
        if (words !== undefined) words[cell] = value;
        for (const task of parked)
          if (task.host === host) task.isAwake ||= wake.includes(task.participant);
      },
      waitUntil: (wait, isTrue) =>
        new Promise<void>((resume, fail) => {
          parked.push({
            host,
            participant,
            isAwake: true,
            isMet: false,
            wait,
            isTrue,
            resume,
            fail,
          });
        }),
    }),

    async run(tasks) {
      let running = tasks.length;
      let failure: { error: unknown } | undefined;
      const settled = tasks.map(async (task) => {
        try {
          await task();
        } catch (error) {
          failure ??= { error };
          abort();
        } finally {
          running--;
        }
      });
      while (running > 0) {
        // When a macrotask runs, all microtasks of the resumed task are done.
        await new Promise<void>((turn) => void setImmediate(turn));
        if (running > 0 && (parked.length > 0 || clock !== undefined)) step();
      }
      await Promise.all(settled);
      if (failure !== undefined) throw failure.error;
    },

    abort,
  };
}

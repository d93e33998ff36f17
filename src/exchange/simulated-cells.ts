// Cells in one thread: every participant is an async task, every wait parks it, and a seed decides
// who goes on next. The same seed gives the same interleaving. When nobody can go on, the wait that
// nobody will ever answer is reported by name, as a deadline would have done.

import { GenerationAbortedError, StepTimeoutError } from "../errors.ts";
import { purposes, RandomStream } from "../random.ts";
import type { Cells } from "./cells.ts";

interface Parked {
  readonly participant: number;
  readonly wait: () => string;
  readonly isTrue: () => boolean;
  readonly resume: () => void;
  readonly fail: (error: Error) => void;
}

export interface SimulatedCells {
  cellsOf(participant: number): Cells;
  /** Runs the tasks to their end, one at a time. Rejects with the first failure. */
  run(tasks: readonly (() => Promise<void>)[]): Promise<void>;
  /** Ends the generation: every task that waits, or will, is released with an error. */
  abort(): void;
}

export function createSimulatedCells(options: {
  readonly cells: number;
  readonly seed: number;
  readonly generation?: number;
}): SimulatedCells {
  const words = new Int32Array(options.cells);
  const random = new RandomStream(options.seed, purposes.faults);
  const generation = options.generation ?? 1;
  let parked: Parked[] = [];
  let isAborted = false;

  function step(): void {
    const ready = parked.filter((task) => isAborted || task.isTrue());
    const next = ready[random.below(ready.length)];
    const stuck = parked[0];
    if (next !== undefined) {
      parked = parked.filter((task) => task !== next);
      if (isAborted) next.fail(new GenerationAbortedError(generation));
      else next.resume();
    } else if (stuck !== undefined) {
      parked = parked.filter((task) => task !== stuck);
      isAborted = true;
      stuck.fail(new StepTimeoutError(stuck.wait(), 0));
    }
  }

  return {
    cellsOf: (participant) => ({
      load: (cell) => words[cell] ?? 0,
      store(cell, value) {
        words[cell] = value;
      },
      waitUntil: (wait, isTrue) =>
        new Promise<void>((resume, fail) => {
          parked.push({ participant, wait, isTrue, resume, fail });
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
          isAborted = true;
        } finally {
          running--;
        }
      });
      while (running > 0) {
        // All microtasks of the task that went on are done when a macrotask comes round.
        await new Promise<void>((turn) => void setImmediate(turn));
        if (running > 0 && parked.length > 0) step();
      }
      await Promise.all(settled);
      if (failure !== undefined) throw failure.error;
    },

    abort() {
      isAborted = true;
    },
  };
}

// Cells that inject a fault into their thread at one point. A device's thread stores and waits at
// the same points of a step every time, so that a step and the number of a point in it identify one
// moment of a run, reproducibly.

import type { Cells } from "../../src/exchange/cells.ts";
import { hang } from "./faulty-disk.ts";

/** Effect of a fault on the thread. */
type Effect =
  /** The thread exits, as if killed. */
  | { readonly effect: "exit" }
  /** The thread hangs forever. */
  | { readonly effect: "stall" }
  /** From this step on, every step takes `slowMs` longer. */
  | { readonly effect: "slow"; readonly slowMs: number }
  /** The thread hangs for `pauseMs`, or until the launcher ends the pause. */
  | { readonly effect: "pause"; readonly pauseMs: number };

export type ThreadFault = Effect & {
  /** `device:1`, `reader:0` */
  readonly actor: string;
  /** The generation of the run in which it is injected. */
  readonly generation: number;
  /**
   * Step of the fault, from 0: once that many steps are complete. For a reader, which is not in
   * step with the devices: from then on.
   */
  readonly step: number;
  /**
   * Number of the store or wait in this step at which it is injected, from 0. An evaluation at this
   * cut counts. `slow` acts at the first store of each step.
   */
  readonly point: number;
};

/** Input of the cells of a thread with a fault. */
export interface BreakingPlace {
  readonly fault: ThreadFault;
  /** Completed steps of the thread's devices. */
  stepsDone(): number;
  /** Word 0 becomes 1 when the fault is injected, and 2 when the thread may continue. */
  readonly injected: Int32Array;
}

export function breakingCells(cells: Cells, { fault, stepsDone, injected }: BreakingPlace): Cells {
  let step = -1;
  let point = 0;
  let slowStep = -1;
  const pass = () => {
    const now = stepsDone();
    if (now !== step) {
      step = now;
      point = 0;
    }
    if (step === fault.step && point === fault.point && fault.effect !== "slow") {
      Atomics.store(injected, 0, 1);
      inject(fault, injected);
    }
    point++;
  };
  return {
    load: (cell) => cells.load(cell),
    store(cell, value, wake) {
      pass();
      // Slow in `store` only: a thread that hung in a wait would seem to wait for others.
      if (fault.effect === "slow" && step >= fault.step && step !== slowStep) {
        slowStep = step;
        Atomics.store(injected, 0, 1);
        hang(fault.slowMs);
      }
      cells.store(cell, value, wake);
    },
    waitUntil(wait, isTrue, of) {
      pass();
      return cells.waitUntil(wait, isTrue, of);
    },
  };
}

function inject(fault: Exclude<Effect, { effect: "slow" }>, injected: Int32Array): void {
  if (fault.effect === "exit") process.exit(1);
  if (fault.effect === "pause") Atomics.wait(injected, 0, 1, fault.pauseMs);
  else hang(Number.POSITIVE_INFINITY);
}

// Cells that break their thread at one point. A device's thread stores and waits at the same points
// of a step every time, so that a step, and the number of the point within it, name one moment of a
// run exactly: the same one whenever it is run again.

import type { Cells } from "../../src/exchange/cells.ts";
import { hang } from "./hang.ts";

/** What happens to a thread at its point. */
type Effect =
  /** It is gone, as if it had been killed. */
  | { readonly effect: "exit" }
  /** It never moves again. */
  | { readonly effect: "stall" }
  /** From that step on it computes every step so much longer. */
  | { readonly effect: "slow"; readonly slowMs: number }
  /** It hangs for this long, or until the launcher lets it go on. */
  | { readonly effect: "pause"; readonly pauseMs: number };

/** One break of one thread. */
export type ThreadFault = Effect & {
  /** `device:1`, `reader:0` */
  readonly actor: string;
  /** In which generation of a run. */
  readonly generation: number;
  /**
   * In step `step`, counted from 0: once that many steps are done. A reader, who is not in step
   * with the devices: from then on.
   */
  readonly step: number;
  /**
   * At the so many-th store or wait since then, counted from 0. An evaluation at this cut counts.
   * What is slow is so at the first store of each step.
   */
  readonly point: number;
};

/** What the cells of a thread that is to break know of it. */
export interface BreakingPlace {
  readonly fault: ThreadFault;
  /** How many steps the thread's devices have done. */
  stepsDone(): number;
  /** Its first word becomes 1 when the fault is injected, 2 when the thread may go on from it. */
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
      // Not while it waits: it would be one who waits for others.
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

// Cells over real shared memory. A wait blocks the calling thread and returns a resolved promise,
// so that a device's thread runs its step loop without an event loop. The bridge, which serves a
// connection, passes `sleepTurning` and waits without blocking; so does the simulator, which runs
// all participants in one thread.

import { GenerationAbortedError, StepTimeoutError } from "../errors/errors.ts";
import type { Clock } from "../ports/clock.ts";
import { deadlinesOf } from "../ports/deadlines.ts";
import { type Cells, isAborted, isHeld, lieDown, wakeSleeper } from "./cells.ts";
import type { WaitNote } from "./wait-notes.ts";

/**
 * Polls before sleeping, of 10 ns each: sleeping costs a round trip through the kernel, of 45 us
 * and more in a virtual machine, and devices of one host are often 100 us apart. If the sleep that
 * follows is long, the polls were useless, and may have kept the awaited thread from the core, as
 * there may be more threads than cores: the next wait polls an eighth less, so that a single long
 * wait changes little. After a short wait the number of polls doubles.
 */
const spins = { first: 500, most: 20_000 };
const shortSleepMs = 0.2;

/** Returns, or resolves, once `words[at]` is no longer `seen`, and after `ms` at the latest. */
export type Sleep = (words: Int32Array, at: number, seen: number, ms: number) => unknown;

/** Sleeps without blocking, so that the thread's event loop keeps running. */
export const sleepTurning: Sleep = (words, at, seen, ms) =>
  Atomics.waitAsync(words, at, seen, ms).value;

export function createAtomicCells(options: {
  readonly words: Int32Array;
  readonly participants: number;
  readonly participant: number;
  readonly generation: number;
  readonly deadlineMs: number;
  readonly clock: Clock;
  /** How a wait sleeps. @default it blocks the thread */
  readonly sleep?: Sleep | undefined;
  /** Where long waits are noted. @default nowhere */
  readonly note?: WaitNote | undefined;
}): Cells {
  const { words, participants, participant, generation, deadlineMs, clock } = options;
  const { sleep, note } = options;
  const isNoting = note !== undefined && Number.isFinite(deadlineMs);
  const notedMs = isNoting ? deadlinesOf({ stepDeadlineMs: deadlineMs }).noted : deadlineMs;
  const base = 1 + participants;
  const doorbell = 1 + participant;
  let polls = spins.first;

  return {
    load: (cell) => Atomics.load(words, base + cell),

    store(cell, value, wake) {
      Atomics.store(words, base + cell, value);
      for (const peer of wake) wakeSleeper(words, peer);
    },

    async waitUntil(wait, isTrue, of) {
      for (let i = 0; i < polls && sleep === undefined; i++) {
        if (isTrue()) return;
      }
      const beganMs = clock.now();
      let startMs = beganMs;
      let wasHeld = false;
      let isNoted = !isNoting;
      for (;;) {
        const rung = lieDown(words, participant); // Before the checks. C1
        if (isAborted(words)) throw new GenerationAbortedError(generation);
        if (isTrue()) {
          if (isNoting && isNoted) note.clear();
          const isShort = clock.now() - beganMs < shortSleepMs;
          polls = isShort ? Math.min(spins.most, 2 * polls) : polls - (polls >> 3);
          return;
        }
        const held = isHeld(words);
        if (held || wasHeld) startMs = clock.now();
        wasHeld = held;
        const waitedMs = clock.now() - startMs;
        // The wait note is kept, as it names the participant that was waited for.
        if (waitedMs >= deadlineMs) throw new StepTimeoutError(wait(), deadlineMs);
        if (!isNoted && waitedMs >= notedMs) {
          note?.write({ of, what: wait(), sinceMs: clock.date().getTime() - waitedMs });
          isNoted = true;
        }
        const untilMs = isNoted ? deadlineMs : notedMs;
        if (sleep === undefined) Atomics.wait(words, doorbell, rung, untilMs - waitedMs);
        else await sleep(words, doorbell, rung, untilMs - waitedMs);
      }
    },
  };
}

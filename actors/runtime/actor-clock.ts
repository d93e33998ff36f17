// Adapts a `Clock` to xstate, which then uses it for every `after` of the machines of an actor
// tree.

import type { Cancel, Clock } from "../../src/ports/clock.ts";

/** The clock option of `createActor`. */
export function actorClock(clock: Clock) {
  return {
    setTimeout: (task: () => void, delayMs: number): Cancel => clock.after(delayMs, task),
    /** xstate also cancels timers that it never set. */
    clearTimeout: (cancel: Cancel | undefined): void => cancel?.(),
  };
}

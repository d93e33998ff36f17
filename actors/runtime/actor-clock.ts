// The clock of a tree of actors, as xstate takes one: every `after` of a machine waits by it.

import type { Cancel, Clock } from "../../src/ports/clock.ts";

/** For `createActor`. */
export function actorClock(clock: Clock) {
  return {
    setTimeout: (task: () => void, delayMs: number): Cancel => clock.after(delayMs, task),
    /** xstate also cancels what it never set. */
    clearTimeout: (cancel: Cancel | undefined): void => cancel?.(),
  };
}

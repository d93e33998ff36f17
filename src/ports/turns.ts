// Splits long work into several turns of the event loop, so that a thread can handle messages in
// between. The work is a generator, which yields where it may be interrupted. A thread without
// messages to handle runs the same work in one go (`atOnce`).

import type { Clock } from "./clock.ts";

/** Work that may be interrupted at each `yield`. */
export type Steps<Result> = Generator<void, Result, void>;

/** Resolves in a later turn. @throws the reason of `signal`, if that was aborted meanwhile */
export async function nextTurn(clock: Clock, signal?: AbortSignal): Promise<void> {
  await new Promise<void>((resume) => clock.after(0, resume));
  signal?.throwIfAborted();
}

/** Runs the work, with a new turn at each `yield`. @throws the reason of `signal`, as `nextTurn` */
export async function inTurns<Result>(
  clock: Clock,
  steps: Steps<Result>,
  signal?: AbortSignal,
): Promise<Result> {
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
    await nextTurn(clock, signal);
  }
}

/** Runs the work without interruption. */
export function atOnce<Result>(steps: Steps<Result>): Result {
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
  }
}

/** Work that arrives within this time after other work counts to the same turn. */
const sameTurnMs = 1;

/**
 * Returns a function that runs work at once, until the present turn has taken `turnMs`; further
 * work is queued for later turns, in order. Otherwise a burst of messages, however long, would be
 * handled in one turn. `onError` receives errors of queued work.
 */
export function paced(
  clock: Pick<Clock, "now" | "after">,
  turnMs: number,
): (work: () => void, onError: (error: unknown) => void) => void {
  const waiting: [work: () => void, onError: (error: unknown) => void][] = [];
  let [spentMs, endedMs] = [0, Number.NEGATIVE_INFINITY];
  const run = (work: () => void) => {
    const startMs = clock.now();
    try {
      work();
    } finally {
      endedMs = clock.now();
      spentMs += endedMs - startMs;
    }
  };
  const turn = () => {
    spentMs = 0;
    while (spentMs < turnMs) {
      const next = waiting.shift();
      if (next === undefined) return;
      const [work, onError] = next;
      try {
        run(work);
      } catch (error) {
        onError(error);
      }
    }
    clock.after(0, turn);
  };
  return (work, onError) => {
    if (waiting.length === 0) {
      if (clock.now() - endedMs > sameTurnMs) spentMs = 0;
      if (spentMs < turnMs) return run(work);
      clock.after(0, turn);
    }
    waiting.push([work, onError]);
  };
}

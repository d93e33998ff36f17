// Long work in pieces: a thread that answers messages does what grows with the tables of a job in
// several turns of its event loop, and answers between them. The work is a generator, which yields
// where it may wait; a thread that answers nobody meanwhile does the same work at once.

import type { Clock } from "./clock.ts";

/** Work that may wait at each `yield`. */
export type Steps<Result> = Generator<void, Result, void>;

/** Resolves in a later turn. @throws the reason of `signal`, if that was aborted meanwhile */
export async function nextTurn(clock: Clock, signal?: AbortSignal): Promise<void> {
  await new Promise<void>((resume) => clock.after(0, resume));
  signal?.throwIfAborted();
}

/** Does the work with a turn at each of its waits. @throws the reason of `signal`, as `nextTurn` */
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

/** Does the work without waits. */
export function atOnce<Result>(steps: Steps<Result>): Result {
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
  }
}

/** Work that comes this soon after other work comes in the same turn. */
const sameTurnMs = 1;

/**
 * Does work as it comes, until a turn has worked for `turnMs`; what comes then waits for later
 * turns, in order. Without it, a burst of messages is one turn, however many they are. `onError` is
 * called with what the work throws in a later turn.
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

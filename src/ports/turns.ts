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

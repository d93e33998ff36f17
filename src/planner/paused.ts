// Work with pauses. Who runs it may do something else in each of them, as to hear a Ctrl-C.

/** Work that pauses now and then, and what comes of it. */
export type Paused<Result> = Generator<undefined, Result, undefined>;

/** The result, without a pause. */
export function untilDone<Result>(work: Paused<Result>): Result {
  for (;;) {
    const next = work.next();
    if (next.done === true) return next.value;
  }
}

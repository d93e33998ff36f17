// Long computations as generators: the caller can handle other events at each yield, such as a
// Ctrl-C.

/** A computation that yields from time to time, and returns its result. */
export type Paused<Result> = Generator<undefined, Result, undefined>;

/** Runs the computation to its end and returns the result. */
export function untilDone<Result>(work: Paused<Result>): Result {
  for (;;) {
    const next = work.next();
    if (next.done === true) return next.value;
  }
}

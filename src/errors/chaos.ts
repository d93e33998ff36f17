// The error of a chaos trial that found a bug.

import { TrainingError } from "./training-error.ts";

/** A faulted run differs from its reference run, or did not end. It is a bug of Osiris. */
export class PromiseBrokenError extends TrainingError {
  readonly code = "PROMISE_BROKEN";
  readonly recovery = "stop";
  readonly verdict: string;
  /** The differences from the reference run, one sentence each. */
  readonly differences: readonly string[];
  /** The faults that were injected: plain data, to be injected again. */
  readonly schedule: unknown;

  constructor(verdict: string, differences: readonly string[], schedule: unknown) {
    super(`A faulted run broke the promise (${verdict}): ${differences.join("; ")}`);
    this.verdict = verdict;
    this.differences = differences;
    this.schedule = schedule;
  }
}

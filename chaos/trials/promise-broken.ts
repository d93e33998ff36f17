// The error of a chaos run that found something.

import { TrainingError } from "../../src/errors/errors.ts";

/**
 * A faulted run is not as its reference run, or did not come to its end. A bug of
 * Osiris.
 */
export class PromiseBrokenError extends TrainingError {
  readonly code = "PROMISE_BROKEN";
  readonly recovery = "stop";
  readonly verdict: string;
  /** What is not as it should be, one sentence each. */
  readonly differences: readonly string[];
  /** What was done to the run: plain data, to be carried out again. */
  readonly schedule: unknown;

  constructor(verdict: string, differences: readonly string[], schedule: unknown) {
    super(`A disturbed run broke the promise (${verdict}): ${differences.join("; ")}`);
    this.verdict = verdict;
    this.differences = differences;
    this.schedule = schedule;
  }
}

// Size and timing of calibration measurements.

import type { Clock } from "../../src/ports/clock.ts";

/** Sizes of the measured workloads. */
export interface CalibrationSize {
  /** Bytes of the table that rows are read from: more than the caches hold. */
  readonly tableBytes: number;
  readonly samples: number;
  readonly idsPerBag: number;
  /** Bytes from each device to each other in a round of the all-to-all. */
  readonly partBytes: number;
  /** Elements of the all-reduced vector. */
  readonly gradientLength: number;
  /** Rows, columns and inner extent of the matrix product. */
  readonly productExtent: number;
  /**
   * Repetitions, of which the fastest counts: other load on the machine can only slow them down.
   */
  readonly rounds: number;
}

/** Seconds of the fastest call, after a warm-up call. */
export function leastSeconds(clock: Clock, rounds: number, work: () => void): number {
  work();
  const seconds = Array.from({ length: rounds }, () => {
    const startMs = clock.now();
    work();
    return (clock.now() - startMs) / 1000;
  });
  return least(seconds);
}

/** The smallest value; at least 1e-9, since a clock's tick may be longer than the measured work. */
export function least(values: readonly number[]): number {
  return values.reduce((all, one) => Math.min(all, Math.max(one, 1e-9)), Number.POSITIVE_INFINITY);
}

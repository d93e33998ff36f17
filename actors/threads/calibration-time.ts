// How much calibration measures, and how it takes the time.

import type { Clock } from "../../src/ports/clock.ts";

/** How much is measured. */
export interface CalibrationSize {
  /** Bytes of the table that rows are read from: more than the caches hold. */
  readonly tableBytes: number;
  readonly samples: number;
  readonly idsPerBag: number;
  /** Bytes that each device sends to each in a round of the all-to-all. */
  readonly partBytes: number;
  /** Elements of the vector that is added up. */
  readonly gradientLength: number;
  /** Rows, columns and inner extent of the matrix product. */
  readonly productExtent: number;
  /** Repetitions; the fastest counts: what else runs on the machine only makes them longer. */
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

/** The least; never 0, as a clock's tick may be longer than what is measured. */
export function least(values: readonly number[]): number {
  return values.reduce((all, one) => Math.min(all, Math.max(one, 1e-9)), Number.POSITIVE_INFINITY);
}

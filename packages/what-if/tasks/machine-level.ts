// The level of a machine's speed. The clock of a shared machine, or what its neighbours do, may
// change its speed between two levels, up to a third apart, for seconds at a time. So the level is
// read before and after each timed sample, and only samples of one level are compared. Of these the
// faster half counts.

import { openKernels } from "../../../internal.ts";

/** Reads the level: operations per second of a product of matrices that fit a core's own cache. */
export type ReadLevel = () => number;

/** Order of the matrices. A product takes some tens of microseconds: few are interrupted. */
const order = 128;
/** Duration of a reading. The best of its products counts: other threads may use this core. */
const readingMs = 10;

/** Readings that differ by this factor are of two levels. */
const apart = 1.15;

export function levelReader(): ReadLevel {
  const kernels = openKernels("auto");
  const matrix = () => kernels.tensor([order, order]);
  const [out, x, w, bias] = [matrix(), matrix(), matrix(), kernels.tensor([order])];
  for (const one of [x, w]) kernels.fill(one, 0.5);
  return () => {
    const startMs = performance.now();
    let leastMs = Number.POSITIVE_INFINITY;
    for (let nowMs = startMs; nowMs - startMs < readingMs; ) {
      kernels.linear(out, x, w, bias, false);
      const endMs = performance.now();
      leastMs = Math.min(leastMs, endMs - nowMs);
      nowMs = endMs;
    }
    return (2 * order ** 3) / (leastMs / 1000);
  };
}

/**
 * The bound between two levels: the middle of the widest gap between readings, if its ends differ
 * by `apart`; else there is one level, above the bound 0.
 */
export function boundOf(readings: readonly number[]): number {
  const sorted = readings.filter((reading) => reading > 0).sort((a, b) => a - b);
  let [bound, widest] = [0, apart];
  for (const [i, high] of sorted.entries()) {
    const low = sorted[i - 1] ?? high;
    if (high / low >= widest) [bound, widest] = [(low + high) / 2, high / low];
  }
  return bound;
}

/** Whether a reading is of this level, or a faster one. */
export function isOfLevel(reading: number, level: number): boolean {
  return reading * apart >= level;
}

/**
 * Returns the faster half of the samples. Other programs, and neighbours of a virtual machine, slow
 * the slower half down. The mean of the faster half varies less than the fastest sample.
 */
export function fasterHalf<Timed>(
  timed: readonly Timed[],
  secondsOf: (one: Timed) => number,
): Timed[] {
  const sorted = [...timed].sort((one, other) => secondsOf(one) - secondsOf(other));
  return sorted.slice(0, Math.ceil(sorted.length / 2));
}

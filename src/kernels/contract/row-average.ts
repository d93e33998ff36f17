// The exponential moving average of rows, computed lazily, with the result of updating all rows at
// every step: s = d s + (1 - d) w.
//
// A row stores its lag, s - w, and the step count at which the lag was stored. While no step
// touches the row, w is constant and each step multiplies the lag by d, so after k steps the lag is
// d^k times the stored lag, and no step has to pass over a table. A step from w to w' stores
//
//   lag' = d (s - w') = d^(k+1) lag + d (w - w')
//
// where k is the number of steps before it that did not touch the row. A row that was never touched
// has a lag of 0.

/** The moving average at one step of an update, or at one lookup. */
export interface RowAverage {
  /** The share of the average that a step keeps; 0 in the first step, which begins it. */
  readonly decay: number;
  /** Number of steps that the average covers; in an update, including its own step. */
  readonly steps: number;
}

/** Most steps that a float32 in the row's state counts exactly. */
export const averagedStepsMax = 2 ** 24;

/** The factor on a lag that was stored at step count `steps`: a float64, which kernels round. */
export function lagShare({ decay, steps: now }: RowAverage, steps: number): number {
  return power(decay, now - steps);
}

/**
 * base^exponent by repeated squaring, from the lowest bit: the same bits on every machine, unlike
 * Math.pow. `exponent`: a whole number, 0 or more.
 */
export function power(base: number, exponent: number): number {
  let result = 1;
  let square = base;
  for (let left = exponent; left > 0; left = Math.floor(left / 2)) {
    if (left % 2 === 1) result *= square;
    square *= square;
  }
  return result;
}

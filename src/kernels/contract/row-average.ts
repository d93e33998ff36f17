// The exponential moving average of rows, as after every step over all rows: s = d s + (1 - d) w.
//
// A row stores its lag, s - w, and the steps that the lag is of. While nothing touches the row, w
// stays and each step takes the lag times d, so that after k steps it is d^k of what is stored: no
// step passes over a table. A step that brings w to w' leaves
//
//   lag' = d (s - w') = d^(k+1) lag + d (w - w')
//
// where k steps left the row alone before it. A lag of 0 is that of a row that was never touched.

/** The average as a step computes it, or as a lookup reads it. */
export interface RowAverage {
  /** The share of the average that a step keeps; 0 in the first step, which begins it. */
  readonly decay: number;
  /** Steps that the average is of: of an update, with the one that it is a part of. */
  readonly steps: number;
}

/** Most steps that a row's float32 counts exactly. */
export const averagedStepsMax = 2 ** 24;

/** The share that is left now of a lag as of `steps` steps: a float64 that the kernels round. */
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

// The directory numbers of surviving state in a checkpoint store; no cut has such a number.

/** The directory number for a device's state after `step` steps, in a run of `steps`. */
export function survivingCut(steps: number, step: number): number {
  return steps + 1 + step;
}

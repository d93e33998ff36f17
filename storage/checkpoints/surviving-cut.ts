// Where surviving state lies in a checkpoint store: in directories with numbers no cut has.

/** The directory number for a device's state after `step` steps, in a run of `steps`. */
export function survivingCut(steps: number, step: number): number {
  return steps + 1 + step;
}

// Where remains lie in a checkpoint store: in directories of numbers that no cut has.

/** Of what a device had after `step` steps, in a run of `steps`. */
export function remainsCut(steps: number, step: number): number {
  return steps + 1 + step;
}

// The state of a row, stored beside its weights: optimizer state, and that of a moving average.

import { InvalidOptionError } from "../../errors/errors.ts";
import { type StateShape, stateShapeOf, stateWidth } from "../../kernels/contract/kernels.ts";
import { averagedStepsMax } from "../../kernels/contract/row-average.ts";
import type { SparseOptimizerSpec } from "./options.ts";

/** The optimizer options that determine the state of a row. */
export type RowStateSpec = Pick<SparseOptimizerSpec, "kind" | "ema">;

/** The shape of a row's state: floats per element, and floats per row. */
export function rowStateOf({ kind, ema }: RowStateSpec): StateShape {
  return stateShapeOf(kind, ema !== undefined);
}

/** Number of state floats of a row with `dim` columns. */
export function rowStateWidth({ kind, ema }: RowStateSpec, dim: number): number {
  return stateWidth(kind, dim, ema !== undefined);
}

/** The initial value of each float of the optimizer's state. */
export function initialStateOf(optimizer: SparseOptimizerSpec): number {
  return "initialAccumulator" in optimizer ? optimizer.initialAccumulator : 0;
}

/** (W): the initial state of a row. Its average equals the row, so the lag of the average is 0. */
export function initialRowState(optimizer: SparseOptimizerSpec, dim: number): Float32Array {
  const state = new Float32Array(rowStateWidth(optimizer, dim)).fill(initialStateOf(optimizer));
  if (optimizer.ema === undefined) return state;
  state.fill(0, 0, dim);
  state.fill(0, state.length - 1);
  return state;
}

/** @throws InvalidOptionError where rows with a moving average cannot count `steps` steps */
export function checkAveragedSteps({ ema }: SparseOptimizerSpec, steps: number): void {
  if (ema === undefined || steps <= averagedStepsMax) return;
  const message =
    `Expected \`optimizer.sparse.ema\` in a run of ${averagedStepsMax} steps at most, as each row ` +
    `counts them in a float32, got ${steps}; leave it out, or take larger batches or fewer epochs`;
  throw new InvalidOptionError("optimizer.sparse.ema", message);
}

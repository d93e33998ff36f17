// What is stored of a row beside its weights: the state of the optimizer, and of a moving average.

import { InvalidOptionError } from "../../errors/errors.ts";
import { type StateShape, stateShapeOf, stateWidth } from "../../kernels/contract/kernels.ts";
import { averagedStepsMax } from "../../kernels/contract/row-average.ts";
import type { SparseOptimizerSpec } from "./options.ts";

/** What of an optimizer decides which state a row has. */
export type RowStateSpec = Pick<SparseOptimizerSpec, "kind" | "ema">;

/** State floats of a row: of each element, and of the row. */
export function rowStateOf({ kind, ema }: RowStateSpec): StateShape {
  return stateShapeOf(kind, ema !== undefined);
}

/** State floats of a row of `dim` columns. */
export function rowStateWidth({ kind, ema }: RowStateSpec, dim: number): number {
  return stateWidth(kind, dim, ema !== undefined);
}

/** The initial value of each float of the optimizer's state. */
export function initialStateOf(optimizer: SparseOptimizerSpec): number {
  return "initialAccumulator" in optimizer ? optimizer.initialAccumulator : 0;
}

/** (W): the whole initial state of a row. Its average is the row itself, so its lag is 0. */
export function initialRowState(optimizer: SparseOptimizerSpec, dim: number): Float32Array {
  const state = new Float32Array(rowStateWidth(optimizer, dim)).fill(initialStateOf(optimizer));
  if (optimizer.ema === undefined) return state;
  state.fill(0, 0, dim);
  state.fill(0, state.length - 1);
  return state;
}

/** @throws InvalidOptionError where rows with a moving average could not count the run's steps */
export function checkAveragedSteps({ ema }: SparseOptimizerSpec, steps: number): void {
  if (ema === undefined || steps <= averagedStepsMax) return;
  const message =
    `Expected \`optimizer.sparse.ema\` in a run of ${averagedStepsMax} steps at most, as each row ` +
    `counts them in a float32, got ${steps}; leave it out, or take larger batches or fewer epochs`;
  throw new InvalidOptionError("optimizer.sparse.ema", message);
}

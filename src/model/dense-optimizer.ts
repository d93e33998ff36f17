// The optimizer of the dense parameters, over the flat tensor: every device runs it identically.

import { power } from "../embedding/options.ts";
import type { Kernels, Tensor } from "../kernels/kernels.ts";
import type { DenseOptimizerSpec } from "./options.ts";

/** The optimizer's memory: (n) tensors, none, one (Adagrad) or two (Adam). */
export interface DenseState {
  readonly slots: readonly Tensor[];
}

/** State for n parameters, as it is before the first step. */
export function createDenseState(
  kernels: Kernels,
  optimizer: DenseOptimizerSpec,
  length: number,
): DenseState {
  const slots = Array.from({ length: denseSlots(optimizer.kind) }, () => kernels.tensor([length]));
  const [accumulator] = slots;
  if (optimizer.kind === "adagrad" && accumulator !== undefined) {
    kernels.fill(accumulator, optimizer.initialAccumulator);
  }
  return { slots };
}

/** How many (n) tensors the optimizer keeps. */
export function denseSlots(kind: DenseOptimizerSpec["kind"]): number {
  switch (kind) {
    case "sgd":
      return 0;
    case "adagrad":
      return 1;
    case "adam":
      return 2;
    default:
      return kind satisfies never;
  }
}

/** One update of w (n) by its gradient g (n); `step` counts from 0. */
export function applyDense(
  kernels: Kernels,
  optimizer: DenseOptimizerSpec,
  state: DenseState,
  w: Tensor,
  g: Tensor,
  step: number,
): void {
  const [first, second] = state.slots;
  switch (optimizer.kind) {
    case "sgd":
      kernels.sgd(w, g, optimizer.learningRate);
      break;
    case "adagrad":
      if (first === undefined) throw new RangeError("Adagrad has no state");
      kernels.adagrad(w, first, g, optimizer.learningRate, optimizer.epsilon);
      break;
    case "adam":
      if (first === undefined || second === undefined) throw new RangeError("Adam has no state");
      kernels.adam(w, first, second, g, {
        ...optimizer,
        correction1: 1 - power(optimizer.beta1, step + 1),
        correction2: 1 - power(optimizer.beta2, step + 1),
      });
      break;
    default:
      optimizer satisfies never;
  }
}

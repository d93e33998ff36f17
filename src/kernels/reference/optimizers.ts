// The update of dense tensors: a tensor is one long row, to which a rule of rows applies.

import type { Kernels } from "../contract/kernels.ts";
import { type Values, valuesOf } from "./memory.ts";
import type { Round } from "./round.ts";
import { applyRule } from "./rules.ts";

/** See `Kernels.applyFlat`, in the precision of `round`. */
export function createApplyFlat(round: Round): Kernels["applyFlat"] {
  return (w, slots, g, rule) => {
    const [state = w, second = state] = slots;
    const row = {
      weights: valuesOf(w),
      weightsAt: 0,
      state: valuesOf(state),
      stateAt: 0,
      second: valuesOf(second),
      secondAt: 0,
      gradient: valuesOf(g),
      gradientAt: 0,
      columns: valuesOf(w).length,
    };
    applyRule(round, row, rule);
    return allFinite(row.gradient);
  };
}

/** Whether all elements are finite. */
export function allFinite(gradient: Values): boolean {
  return gradient.every((value: number) => Number.isFinite(value));
}

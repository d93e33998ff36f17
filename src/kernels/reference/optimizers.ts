// The dense optimizers: each treats a tensor as one long row, and applies the update rule of rows.

import type { Kernels, RowRule, Tensor } from "../contract/kernels.ts";
import type { Round } from "./dense.ts";
import { type Values, valuesOf } from "./memory.ts";
import { applyRule, type RowAt } from "./rules.ts";

/** The optimizers of dense tensors. */
export type Optimizers = Pick<Kernels, "sgd" | "adagrad" | "momentum" | "adam" | "lamb">;

/** The dense optimizers. Each returns false if an element of the gradient is not finite. */
export function createOptimizers(round: Round): Optimizers {
  const apply = (row: RowAt, rule: RowRule): boolean => {
    applyRule(round, row, rule);
    return allFinite(row.gradient);
  };
  return {
    sgd(w, g, learningRate) {
      return apply(flat(w, w, w, g), { kind: "sgd", learningRate, ...plain });
    },
    adagrad(w, acc, g, learningRate, epsilon) {
      return apply(flat(w, acc, acc, g), { kind: "adagrad", learningRate, epsilon, ...plain });
    },
    momentum(w, buffer, g, learningRate, momentum) {
      const rule = { kind: "momentum", learningRate, momentum, ...plain } as const;
      return apply(flat(w, buffer, buffer, g), rule);
    },
    adam(w, m, v, g, rule) {
      return apply(flat(w, m, v, g), { ...rule, kind: "adam", l2: 0 });
    },
    lamb(w, m, v, g, rule) {
      return apply(flat(w, m, v, g), { ...rule, kind: "lamb", l2: 0 });
    },
  };
}

/** Whether all elements are finite. */
export function allFinite(gradient: Values): boolean {
  return gradient.every((value: number) => Number.isFinite(value));
}

/** Dense optimizers have no l2 penalty and no decay. */
const plain = { l2: 0, decay: 0 };

/** A dense tensor as one long row. */
function flat(w: Tensor, state: Tensor, second: Tensor, g: Tensor): RowAt {
  return {
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
}

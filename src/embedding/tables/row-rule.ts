// Translates an optimizer's options into the kernels' numbers for one step.

import type { AdamNumbers, RowRule } from "../../kernels/contract/kernels.ts";
import type { AdamSpec, SparseOptimizerSpec } from "./options.ts";

/** The rule of one table with the penalty `l2`, at one step; `step` counts from 0. */
export function rowRuleOf(optimizer: SparseOptimizerSpec, l2: number, step: number): RowRule {
  const { kind, learningRate } = optimizer;
  switch (kind) {
    case "sgd":
      return { kind, learningRate, l2, decay: 0 };
    case "adagrad":
      return { kind, learningRate, epsilon: optimizer.epsilon, l2, decay: 0 };
    case "rowWiseAdagrad": {
      const { epsilon, weightDecay, weightDecayMode } = optimizer;
      return weightDecayMode === "l2"
        ? { kind, learningRate, epsilon, l2: l2 + weightDecay, decay: 0 }
        : { kind, learningRate, epsilon, l2, decay: weightDecay };
    }
    case "adam":
    case "partialRowWiseAdam":
    case "lamb":
    case "partialRowWiseLamb":
      return { kind, l2, ...adamNumbersOf(optimizer, step) };
    case "ftrl": {
      const { beta, l1: lambda1, l2: lambda2 } = optimizer;
      return { kind, learningRate, l2, beta, lambda1, lambda2 };
    }
    default:
      return optimizer satisfies never;
  }
}

/** Adam's numbers at one step, with bias corrections; `step` counts from 0. */
export function adamNumbersOf(optimizer: AdamSpec, step: number): AdamNumbers {
  const { learningRate, beta1, beta2, epsilon, weightDecay: decay } = optimizer;
  return {
    learningRate,
    beta1,
    beta2,
    epsilon,
    decay,
    correction1: 1 - power(beta1, step + 1),
    correction2: 1 - power(beta2, step + 1),
  };
}

/** base^exponent by repeated squaring: the same bits on every machine, unlike Math.pow. */
function power(base: number, exponent: number): number {
  let result = 1;
  let square = base;
  for (let left = exponent; left > 0; left = Math.floor(left / 2)) {
    if (left % 2 === 1) result *= square;
    square *= square;
  }
  return result;
}

// Translates an optimizer's options into the parameters of the update kernels for one step.

import type { AdamNumbers, RowRule } from "../../kernels/contract/kernels.ts";
import { power } from "../../kernels/contract/row-average.ts";
import { type Key, purposes } from "../../ports/random.ts";
import type { AdamSpec, SparseOptimizerSpec } from "./options.ts";
import { rateShare } from "./rate-schedule.ts";
import type { RateSchedule } from "./schedule-options.ts";

/** Inputs to the parameters of a step besides the options. */
export interface OptimizerStep {
  /** The step, counted from 0. */
  readonly step: number;
  /** Factor on the learning rate from past plateaus (plateau.ts); 1: there was no plateau. */
  readonly plateau: number;
}

/** The update rule at one step, for a table with the penalty `l2`. */
export function rowRuleOf(optimizer: SparseOptimizerSpec, l2: number, at: OptimizerStep): RowRule {
  const { clip, ema } = optimizer;
  const rule = updateOf(optimizer, l2, at);
  const average = ema && { decay: at.step === 0 ? 0 : ema.decay, steps: at.step + 1 };
  return { ...rule, ...(clip && { clip: clip.value }), ...(average && { average }) };
}

/**
 * Returns `last` where the rule equals it. Kernels keep the numbers of a rule object
 * (src/kernels/table/lists.ts), so an equal object need not be listed again.
 */
export function asBefore(rule: RowRule, last: RowRule | undefined): RowRule {
  const names = Object.keys({ ...last, ...rule }) as (keyof RowRule)[];
  return last && names.every((name) => Object.is(rule[name], last[name])) ? last : rule;
}

/** Adds to the rule of table number `table` at a step how new weights are rounded. */
export function roundedRule(rule: RowRule, key: Key, table: number, step: number): RowRule {
  return { ...rule, rounding: { key, purpose: purposes.rowRounding + table, step } };
}

function updateOf(optimizer: SparseOptimizerSpec, l2: number, at: OptimizerStep): RowRule {
  const { kind } = optimizer;
  const learningRate = rateOf(optimizer, at);
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
      return { kind, l2, ...adamNumbersOf(optimizer, at) };
    case "ftrl": {
      const { beta, l1: lambda1, l2: lambda2 } = optimizer;
      return { kind, learningRate, l2, beta, lambda1, lambda2 };
    }
    default:
      return optimizer satisfies never;
  }
}

/** The learning rate of one step, after its schedule and the reductions of plateaus. */
export function rateOf(
  optimizer: { readonly learningRate: number; readonly schedule?: RateSchedule | undefined },
  { step, plateau }: OptimizerStep,
): number {
  return optimizer.learningRate * rateShare(optimizer.schedule, step) * plateau;
}

/** Adam's parameters at one step, with bias corrections. */
export function adamNumbersOf(optimizer: AdamSpec, at: OptimizerStep): AdamNumbers {
  const { beta1, beta2, epsilon, weightDecay: decay } = optimizer;
  return {
    learningRate: rateOf(optimizer, at),
    beta1,
    beta2,
    epsilon,
    decay,
    correction1: 1 - power(beta1, at.step + 1),
    correction2: 1 - power(beta2, at.step + 1),
  };
}

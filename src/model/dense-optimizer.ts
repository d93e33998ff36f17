// The optimizer of the dense parameters, which works on the flat tensor. Every device runs it, with
// identical results.

import {
  adamNumbersOf,
  asBefore,
  type OptimizerStep,
  rateOf,
} from "../embedding/tables/row-rule.ts";
import type { Kernels, RowRule, Tensor } from "../kernels/contract/kernels.ts";
import type { ParameterLayout } from "./graph/parameters.ts";
import type { ClipSpec, DenseOptimizerSpec } from "./options.ts";

/**
 * The optimizer's state: none, one (momentum, Adagrad) or two (Adam, LAMB) tensors of shape (n),
 * followed by the moving average of the weights, if there is one.
 */
export interface DenseState {
  readonly slots: readonly Tensor[];
  /** Buffer for the clipped gradient (n); undefined: gradients are not clipped. */
  readonly clipped: Tensor | undefined;
}

/** State for n parameters, before the first step. */
export function createDenseState(
  kernels: Kernels,
  optimizer: DenseOptimizerSpec,
  length: number,
): DenseState {
  const count = denseSlots(optimizer) + (optimizer.ema === undefined ? 0 : 1);
  const slots = Array.from({ length: count }, () => kernels.tensor([length]));
  const [accumulator] = slots;
  if (optimizer.kind === "adagrad" && accumulator !== undefined) {
    kernels.fill(accumulator, optimizer.initialAccumulator);
  }
  return { slots, clipped: optimizer.clip && kernels.tensor([length]) };
}

/** Number of (n) tensors that the optimizer keeps. */
export function denseSlots(optimizer: DenseOptimizerSpec): number {
  switch (optimizer.kind) {
    case "sgd":
      return optimizer.momentum > 0 ? 1 : 0;
    case "adagrad":
      return 1;
    case "adam":
    case "lamb":
      return 2;
    default:
      return optimizer satisfies never;
  }
}

/**
 * Updates `weights` (n), all parameters of `layout` except statistics, with the gradient (n), which
 * is clipped first if the optimizer has `clip`. Then updates the moving average. Returns false if
 * the gradient has a NaN or an infinity: the parameters are then unusable.
 */
export function applyDense(
  kernels: Kernels,
  optimizer: DenseOptimizerSpec,
  state: DenseState,
  layout: ParameterLayout,
  weights: Tensor,
  gradient: Tensor,
  at: OptimizerStep,
): boolean {
  const { clip: limit, ema } = optimizer;
  const trained = (of: Tensor) => kernels.reshape(of, [layout.trained]);
  const g = trained(state.clipped ?? gradient);
  if (limit !== undefined && !clip(kernels, limit, g, trained(gradient))) return false;
  const isGood = update(kernels, optimizer, state, layout, weights, g, at);
  const average = averageOf(optimizer, state);
  if (ema !== undefined && average !== undefined) {
    kernels.average(trained(average), trained(weights), at.step === 0 ? 0 : ema.decay);
  }
  return isGood;
}

/** The moving average (n) of the weights; undefined: there is none. */
function averageOf(optimizer: DenseOptimizerSpec, state: DenseState): Tensor | undefined {
  return optimizer.ema && state.slots.at(-1);
}

/**
 * Exchanges the moving average and the weights (n); a second call undoes the first. Statistics are
 * not exchanged. Does nothing without an average.
 */
export function swapAverage(
  kernels: Kernels,
  optimizer: DenseOptimizerSpec,
  state: DenseState,
  layout: ParameterLayout,
  weights: Tensor,
): void {
  const average = averageOf(optimizer, state);
  if (average === undefined) return;
  const trained = (of: Tensor) => kernels.reshape(of, [layout.trained]);
  kernels.swap(trained(average), trained(weights));
}

/** The rule of each device's last step: an unchanged rule keeps its object (`asBefore`). */
const lastRules = new WeakMap<DenseState, RowRule>();

function update(
  kernels: Kernels,
  optimizer: DenseOptimizerSpec,
  state: DenseState,
  layout: ParameterLayout,
  weights: Tensor,
  g: Tensor,
  at: OptimizerStep,
): boolean {
  const trained = (of: Tensor) => kernels.reshape(of, [layout.trained]);
  const w = trained(weights);
  const slots = state.slots.slice(0, denseSlots(optimizer)).map(trained);
  const rule = asBefore(denseRuleOf(optimizer, at), lastRules.get(state));
  lastRules.set(state, rule);
  if (rule.kind !== "lamb") return kernels.applyFlat(w, slots, g, rule);
  // LAMB takes a norm per named parameter, so that each needs a call of its own.
  let allFinite = true;
  for (const { first, length, isStatistic } of layout.parameters) {
    if (isStatistic) continue;
    const part = (flat: Tensor) => kernels.reshape(flat, [length], first);
    const good = kernels.applyFlat(part(w), slots.map(part), part(g), rule);
    allFinite &&= good;
  }
  return allFinite;
}

/** The update rule of one step. */
function denseRuleOf(optimizer: DenseOptimizerSpec, at: OptimizerStep): RowRule {
  const plain = { learningRate: rateOf(optimizer, at), l2: 0, decay: 0 };
  switch (optimizer.kind) {
    case "sgd": {
      const { momentum } = optimizer;
      return momentum === 0 ? { kind: "sgd", ...plain } : { kind: "momentum", momentum, ...plain };
    }
    case "adagrad":
      return { kind: "adagrad", epsilon: optimizer.epsilon, ...plain };
    case "adam":
    case "lamb":
      return { kind: optimizer.kind, l2: 0, ...adamNumbersOf(optimizer, at) };
    default:
      return optimizer satisfies never;
  }
}

/**
 * Writes to `out` (n) the gradient (n), clipped by element or by norm. The gradient itself stays
 * unchanged, because all devices of a host read it. Returns false if it is not finite.
 */
function clip(kernels: Kernels, limit: ClipSpec, out: Tensor, gradient: Tensor): boolean {
  return "value" in limit
    ? kernels.clipValues(out, gradient, limit.value)
    : kernels.clipNorm(out, gradient, limit.norm);
}

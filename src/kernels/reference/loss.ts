// The loss of a batch, forward and backward. The reference and native kernels share this code:
// exponentials differ in bits between mathematical libraries, so only V8's library computes them. A
// batch needs only B of them for each logit, so this is fast enough.

import type { Kernels } from "../contract/kernels.ts";
import type { CrossEntropyRule, LossTerm } from "../contract/loss.ts";
import { type Values, valuesOf } from "./memory.ts";

/** See `Kernels.loss`. Computed in float64; dLogits rounds once, when it is stored. */
export const loss: Kernels["loss"] = (
  losses,
  dLogits,
  logits,
  labels,
  terms,
  batchSize,
  slices,
  weights,
  labelled,
) => {
  const d = valuesOf(dLogits);
  if (terms.length !== logits.shape[1]) d.fill(0);
  losses.fill(0);
  const batch = {
    d,
    zs: valuesOf(logits),
    K: logits.shape[1]!,
    ys: valuesOf(labels),
    L: labels.shape[1]!,
    ws: weights && valuesOf(weights),
  };
  for (const term of terms) {
    const counted = term.target.of === "label" ? labelled?.[term.target.column] : undefined;
    const own = { ...batch, samples: counted ?? batchSize };
    // The caller divides the batch's loss by batchSize, so scale a mean over fewer samples up.
    const share = own.samples === 0 ? 0 : batchSize / own.samples;
    for (let slice = 0; slice < losses.length; slice++) {
      const [first, end] = [slices.bounds[slice]!, slices.bounds[slice + 1]!];
      losses[slice] = losses[slice]! + term.weight * share * sumOfTerm(own, term, first, end);
    }
  }
};

/** Tensors of a batch: logits and gradients (B,K), labels (B,L). */
interface LossBatch {
  readonly d: Values;
  readonly zs: Values;
  readonly K: number;
  readonly ys: Values;
  readonly L: number;
  /** (B); undefined: all 1. */
  readonly ws: Values | undefined;
  /** Number of the batch's samples over which the term is a mean. */
  readonly samples: number;
}

/** The sum of a term over the samples first .. end-1; their gradients go into `d`. */
function sumOfTerm(batch: LossBatch, term: LossTerm, first: number, end: number): number {
  const { d, zs, K, ws, samples } = batch;
  const { logit, rule, weight } = term;
  let sum = 0;
  for (let s = first; s < end; s++) {
    const z = zs[s * K + logit]!;
    const y = targetOf(batch, term, s);
    if (Number.isNaN(y) && term.target.of === "label") {
      d[s * K + logit] = 0;
      continue;
    }
    const w = ws === undefined ? 1 : ws[s]!;
    let error = 0;
    if (rule.kind === "mse") {
      sum += w * (z - y) * (z - y);
      error = 2 * (z - y);
    } else {
      const target = y * (1 - rule.labelSmoothing) + rule.labelSmoothing / 2;
      const small = Math.exp(-Math.abs(z)); // Used forward and backward.
      sum += w * crossEntropy(z, small, target, rule);
      error = dCrossEntropy(z, small, target, rule);
    }
    d[s * K + logit] = (weight * w * error) / samples;
  }
  return sum;
}

function targetOf({ zs, K, ys, L }: LossBatch, { target }: LossTerm, sample: number): number {
  if (target.of === "label") return ys[sample * L + target.column]!;
  const z = zs[sample * K + target.column]!;
  return logistic(z, Math.exp(-Math.abs(z)));
}

/** 1 / (1 + exp(-z)). `small` = exp(-|z|), which cannot overflow. */
function logistic(z: number, small: number): number {
  return z >= 0 ? 1 / (1 + small) : small / (1 + small);
}

/** -(p y log s(z) + (1 - y) log(1 - s(z))), where p is the weight of label 1, s is logistic. */
function crossEntropy(
  z: number,
  small: number,
  y: number,
  { positiveWeight: p }: CrossEntropyRule,
): number {
  if (p === 1) return Math.max(z, 0) - z * y + Math.log1p(small);
  return (1 - y) * z + (1 + (p - 1) * y) * (Math.log1p(small) + Math.max(-z, 0));
}

/** (1 + (p - 1) y) s(z) - p y. */
function dCrossEntropy(
  z: number,
  small: number,
  y: number,
  { positiveWeight: p }: CrossEntropyRule,
): number {
  return (1 + (p - 1) * y) * logistic(z, small) - p * y;
}

// The loss of a sample: a sum of terms, each of one column of the sample's logits.

/** One term of the loss. */
export interface LossTerm {
  /** Column of the logits. No two terms have the same one. */
  readonly logit: number;
  readonly target: LossTarget;
  /** Factor of the term in the loss. */
  readonly weight: number;
  readonly rule: LossRule;
}

/**
 * A column of the labels; or what another column of the logits predicts, as a number through which
 * no gradient flows (stop-gradient).
 */
export interface LossTarget {
  readonly of: "label" | "prediction";
  readonly column: number;
}

/** How a logit z and a target y make a loss. */
export type LossRule = CrossEntropyRule | SquaredErrorRule;

/** The cross-entropy of the logistic function of z. */
export interface CrossEntropyRule {
  readonly kind: "binaryCrossEntropy";
  /** Factor of the part of label 1 (`pos_weight` of PyTorch). 1: both labels count alike. */
  readonly positiveWeight: number;
  /** y becomes y * (1 - labelSmoothing) + labelSmoothing / 2. */
  readonly labelSmoothing: number;
}

/** (z - y)². */
export interface SquaredErrorRule {
  readonly kind: "mse";
}

/** The loss of one logit and one label of 0 or 1. */
export const usualLossTerm: LossTerm = {
  logit: 0,
  target: { of: "label", column: 0 },
  weight: 1,
  rule: { kind: "binaryCrossEntropy", positiveWeight: 1, labelSmoothing: 0 },
};

// The loss of a sample: a sum of terms, each for one column of the sample's logits.

export interface LossTerm {
  /** Column of the logits. No two terms have the same column. */
  readonly logit: number;
  readonly target: LossTarget;
  /** Factor of the term in the loss. */
  readonly weight: number;
  readonly rule: LossRule;
}

/**
 * The target of a term: a column of the labels, or the prediction of another column of the logits,
 * through which no gradient flows (stop-gradient).
 */
export interface LossTarget {
  readonly of: "label" | "prediction";
  readonly column: number;
}

/** The loss function of a logit z and a target y. */
export type LossRule = CrossEntropyRule | SquaredErrorRule;

/** The cross-entropy of the logistic function of z. */
export interface CrossEntropyRule {
  readonly kind: "binaryCrossEntropy";
  /** Factor of the loss of label 1 (`pos_weight` of PyTorch). 1: both labels have equal weight. */
  readonly positiveWeight: number;
  /** y becomes y * (1 - labelSmoothing) + labelSmoothing / 2. */
  readonly labelSmoothing: number;
}

/** (z - y)². */
export interface SquaredErrorRule {
  readonly kind: "mse";
}

/** The default term: cross-entropy of one logit with one label of 0 or 1. */
export const usualLossTerm: LossTerm = {
  logit: 0,
  target: { of: "label", column: 0 },
  weight: 1,
  rule: { kind: "binaryCrossEntropy", positiveWeight: 1, labelSmoothing: 0 },
};

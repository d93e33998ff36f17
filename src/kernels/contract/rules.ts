// The update rules of rows: their parameters, and the state that each rule needs.

import type { Rounding } from "./precision.ts";
import type { RowAverage } from "./row-average.ts";

interface Rounded {
  /**
   * Elements of a row's summed gradient are clamped to ±clip before any other use, as by
   * torch.nn.utils.clip_grad_value_; left out: they are not clamped. Rows only.
   */
  readonly clip?: number | undefined;
  /** Stochastic rounding of new weights; required if the table stores them in fewer bits. */
  readonly rounding?: Rounding;
  /** The moving average after this update (row-average.ts); given iff rows have one. */
  readonly average?: RowAverage | undefined;
}

/** The options of every rule except FTRL, which shrinks weights in its own way. */
interface Shrinking extends Rounded {
  readonly learningRate: number;
  /** g becomes g + l2*w before any other use of g. */
  readonly l2: number;
  /** Decoupled weight decay: w becomes (1 - learningRate*decay)*w before the update. */
  readonly decay: number;
}

/** The parameters of Adam and its variants. */
export interface AdamNumbers {
  readonly learningRate: number;
  readonly beta1: number;
  readonly beta2: number;
  readonly epsilon: number;
  readonly decay: number;
  /** 1 - beta1^t and 1 - beta2^t of this step. */
  readonly correction1: number;
  readonly correction2: number;
}

/** w -= learningRate * g */
export interface SgdRule extends Shrinking {
  readonly kind: "sgd";
}

/** b = momentum*b + g; w -= learningRate * b */
export interface MomentumRule extends Shrinking {
  readonly kind: "momentum";
  readonly momentum: number;
}

/** s += g*g, or for `rowWiseAdagrad` its mean; w -= learningRate * g / (sqrt(s) + epsilon) */
export interface AdagradRule extends Shrinking {
  readonly kind: "adagrad" | "rowWiseAdagrad";
  readonly epsilon: number;
}

/**
 * `adam`: AdamW: m and v move to g and g*g by beta1 and beta2; w *= 1 - learningRate*decay; then
 * w -= learningRate/c1 * m / (sqrt(v)/sqrt(c2) + epsilon), c = 1 - beta^t.
 * `partialRowWiseAdam`: Adam with one second moment per row, of the mean of squares.
 * `lamb`: u = Adam's direction + decay*w; w -= learningRate * |w|/|u| * u; no other decay.
 * `partialRowWiseLamb`: LAMB with one second moment per row.
 */
export interface AdamRule extends AdamNumbers, Rounded {
  readonly kind: "adam" | "partialRowWiseAdam" | "lamb" | "partialRowWiseLamb";
  readonly l2: number;
}

/**
 * FTRL-proximal (McMahan et al., KDD'13): s = (sqrt(n + g*g) - sqrt(n)) / learningRate;
 * z += g - s*w; n += g*g;
 * w = -softThreshold(z, lambda1) / ((beta + sqrt(n)) / learningRate + lambda2).
 */
export interface FtrlRule extends Rounded {
  readonly kind: "ftrl";
  readonly learningRate: number;
  readonly l2: number;
  readonly beta: number;
  readonly lambda1: number;
  readonly lambda2: number;
}

/**
 * The rule by which a row is updated with its gradient g (the optimizers of FBGEMM's table batched
 * embeddings). A dense tensor is treated as one long row. Means and norms are over the columns of
 * the whole row, by quanta.
 */
export type RowRule = SgdRule | MomentumRule | AdagradRule | AdamRule | FtrlRule;

/** Shape of a row's state: floats per element, and floats per row. */
export interface StateShape {
  readonly perElement: number;
  readonly perRow: number;
}

/** The state of each rule, and the values of whole rows that it takes. */
interface RuleFacts extends StateShape {
  readonly takes: readonly ("mean" | "trust")[];
}

/** The rules, in the order of `RuleKind` in native/rule.h. */
const rules: Readonly<Record<RowRule["kind"], RuleFacts>> = {
  sgd: { perElement: 0, perRow: 0, takes: [] },
  momentum: { perElement: 1, perRow: 0, takes: [] },
  adagrad: { perElement: 1, perRow: 0, takes: [] },
  rowWiseAdagrad: { perElement: 0, perRow: 1, takes: ["mean"] },
  adam: { perElement: 2, perRow: 0, takes: [] },
  partialRowWiseAdam: { perElement: 1, perRow: 1, takes: ["mean"] },
  lamb: { perElement: 2, perRow: 0, takes: ["trust"] },
  partialRowWiseLamb: { perElement: 1, perRow: 1, takes: ["mean", "trust"] },
  ftrl: { perElement: 2, perRow: 0, takes: [] },
};

/** The kinds of rules, in the order of `RuleKind` in native/rule.h. */
export const ruleKinds = Object.keys(rules);

/** The numbers of all rules, in the order in which `ruleOf` in native/rule.h reads them. */
export const ruleNumbers = [
  "learningRate",
  "l2",
  "decay",
  "epsilon",
  "momentum",
  "beta1",
  "beta2",
  "correction1",
  "correction2",
  "beta",
  "lambda1",
  "lambda2",
  "clip",
] as const;

/**
 * The state of a rule. With `isAveraged`, the state of a moving average is added: a lag per element
 * before the rule's state, and a step count per row after it.
 */
export function stateShapeOf(kind: RowRule["kind"], isAveraged = false): StateShape {
  const { perElement, perRow } = rules[kind];
  return isAveraged ? { perElement: perElement + 1, perRow: perRow + 1 } : { perElement, perRow };
}

/** State floats per row of `dim` columns: first the states of elements, then that of the row. */
export function stateWidth(kind: RowRule["kind"], dim: number, isAveraged = false): number {
  const { perElement, perRow } = stateShapeOf(kind, isAveraged);
  return perElement * dim + perRow;
}

/** Whether the rule needs the mean of squares of a whole row. */
export function takesMean(kind: RowRule["kind"]): boolean {
  return rules[kind].takes.includes("mean");
}

/** Whether the rule needs the trust ratio of a whole row. */
export function takesTrust(kind: RowRule["kind"]): boolean {
  return rules[kind].takes.includes("trust");
}

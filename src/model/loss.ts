// The loss of a model: what makes one number, and its gradient, of the logits of a sample. A model
// says what each logit is trained for (graph.ts, `objectives`), the job or a task by which rule;
// the kernel does the arithmetic.

import { type LossRule, type LossTerm, usualLossTerm } from "../kernels/contract/kernels.ts";
import type { Graph } from "./graph/graph.ts";
import type { LossSpec } from "./options/loss-options.ts";

/**
 * The terms of a model's loss, in the order in which they are added up. What a logit predicts is no
 * label: a logit that is trained for it takes the plain rule.
 */
export function lossTermsOf(
  { objectives }: Graph,
  loss: LossRule = usualLossTerm.rule,
): LossTerm[] {
  return objectives.map(({ logit, target, weight, rule: own }) => {
    const rule: LossRule = target.of === "label" ? (own ?? loss) : usualLossTerm.rule;
    return { logit, target, weight, rule };
  });
}

/** What to expect of a loss: by this it is told whether a model has diverged. */
export interface LossScale {
  /** The most that the mean loss of a batch can be where all logits are 0; of numbers, any. */
  readonly ofNothing: number;
  /** How many times more samples of one class count than those of the other. */
  readonly skew: number;
}

/** The scale of the usual loss. */
export const usualScale: LossScale = { ofNothing: Math.LN2, skew: 1 };

/**
 * The scale where samples have weights: it follows from these, so only a loss that is no finite
 * number tells of a model that has diverged.
 */
export const unknownScale: LossScale = {
  ofNothing: Number.POSITIVE_INFINITY,
  skew: Number.POSITIVE_INFINITY,
};

/** The scale of the loss of a model. The first task's evaluation is judged, by its own rule. */
export function lossScaleOf(graph: Graph, loss: LossSpec): LossScale {
  const terms = lossTermsOf(graph, loss);
  const positiveWeights = terms.map(({ rule }) => (rule.kind === "mse" ? 1 : rule.positiveWeight));
  const [skew = 1] = positiveWeights;
  const ofNothing = terms.reduce((sum, { weight, rule }, i) => {
    const most = Math.max(1, positiveWeights[i] ?? 1) * Math.LN2;
    return sum + weight * (rule.kind === "mse" ? Number.POSITIVE_INFINITY : most);
  }, 0);
  return { ofNothing, skew: Math.max(skew, 1 / skew) };
}

/** The loss of each label that a job trains on, in the order of the labels. */
export function lossesOf(job: {
  readonly model: object & {
    readonly tasks?: readonly { readonly loss?: LossSpec | undefined }[] | undefined;
  };
  readonly loss: LossSpec;
}): readonly LossSpec[] {
  return job.model.tasks?.map(({ loss }) => loss ?? job.loss) ?? [job.loss];
}

/** (B,L): of the logits (B,K), those by which the model predicts its labels, in their order. */
export function predictedBy({ objectives, output }: Graph, logits: Float32Array): Float32Array {
  const [width = 1] = output.shape;
  if (width === 1) return logits;
  const own = objectives.filter(({ target }) => target.of === "label");
  const columns = own.toSorted((a, b) => a.target.column - b.target.column);
  const predicted = new Float32Array((logits.length / width) * columns.length);
  let at = 0;
  for (let first = 0; first < logits.length; first += width) {
    for (const { logit } of columns) predicted[at++] = logits[first + logit] ?? 0;
  }
  return predicted;
}

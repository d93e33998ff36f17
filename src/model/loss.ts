// The loss of a model: one number per sample, and its gradient, from the sample's logits. The model
// defines the target of each logit (graph.ts, `objectives`), the job or a task the loss rule; the
// kernel does the arithmetic.

import { type LossRule, type LossTerm, usualLossTerm } from "../kernels/contract/kernels.ts";
import type { Graph } from "./graph/graph.ts";
import type { LossSpec } from "./loss-options.ts";

/**
 * The terms of a model's loss, in the order in which they are summed. A logit with another logit's
 * prediction as target has no label, and takes the plain rule.
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

/** The expected scale of a loss, from which divergence of a model is detected. */
export interface LossScale {
  /** The largest mean loss of a batch with all logits 0; infinite for regression (`mse`). */
  readonly ofNothing: number;
  /** Factor by which samples of one class count more than samples of the other. */
  readonly skew: number;
}

/** The scale of the default loss: unweighted log loss of one label. */
export const usualScale: LossScale = { ofNothing: Math.LN2, skew: 1 };

/**
 * The scale for weighted samples: it depends on the weights, so that only a loss that is not finite
 * counts as divergence.
 */
export const unknownScale: LossScale = {
  ofNothing: Number.POSITIVE_INFINITY,
  skew: Number.POSITIVE_INFINITY,
};

/**
 * The scale of a model's loss. `skew` is that of the first task, because its evaluation is judged.
 */
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

/**
 * Selects from logits (B,K) the model's predictions of its labels, in the order of the labels.
 * Returns (B,L).
 */
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

// The loss of a model: what makes one number, and its gradient, of the logits of a sample. A model
// says what each logit is trained for (graph.ts, `objectives`); the kernel does the arithmetic.

import { type LossTerm, usualLossTerm } from "../kernels/contract/kernels.ts";
import type { Graph } from "./graph/graph.ts";

/** The terms of a model's loss, in the order in which they are added up. */
export function lossTermsOf({ objectives }: Graph): LossTerm[] {
  const { rule } = usualLossTerm;
  return objectives.map(({ logit, target, weight }) => ({ logit, target, weight, rule }));
}

/** (B): of the logits (B,K), those by which the model predicts its first label. */
export function predictedBy({ objectives, output }: Graph, logits: Float32Array): Float32Array {
  const [width = 1] = output.shape;
  if (width === 1) return logits;
  const column = objectives.find(({ target }) => target.of === "label")?.logit ?? 0;
  return Float32Array.from(
    { length: logits.length / width },
    (_, b) => logits[b * width + column] ?? 0,
  );
}

// Target attention (Deep Interest Network, Zhou et al., arXiv 1706.06978): how much each vector of
// a sequence counts is what a small MLP makes of it and of a target. The sequence becomes the
// weighted sum of its vectors.
//
// T = positions, D = columns of a vector.

import { checkShapes, type GraphBuilder, reshaped, type Value } from "../../graph/graph.ts";
import { softmax, weightedSums } from "../attention.ts";
import { repeated, vectorsBeside } from "../columns.ts";
import { difference, product, sum } from "../elements.ts";
import { type Activation, mlp } from "../mlp.ts";
import { factors, penalties, type Sequence, sequenceMask } from "./sequence-mask.ts";

export interface TargetAttentionOptions {
  /** The layers of its MLP are `name.0`, `name.1` … */
  readonly name: string;
  /** Widths of the hidden layers. The last layer gives one number and is not of them. */
  readonly hidden: readonly number[];
  /** What follows each of them. @default "relu" */
  readonly activation?: Activation;
  /** Whether the numbers become weights that sum to 1. The paper has none. @default false */
  readonly softmax?: boolean;
}

/** The sum of the vectors of a sequence, weighted by a target (D); zeros without ids. (D). */
export function targetAttention(
  graph: GraphBuilder,
  target: Value,
  sequence: Sequence,
  options: TargetAttentionOptions,
): Value {
  const { vectors } = sequence;
  const [positions = 0, dim = 0] = vectors.shape;
  const fit = vectors.shape.length === 2 && target.shape.length === 1 && target.shape[0] === dim;
  checkShapes(fit, "a target is as wide as the vectors of its sequence", target, vectors);
  const queries = repeated(graph, target, positions);
  const pairs = vectorsBeside(graph, [
    queries,
    vectors,
    difference(graph, queries, vectors),
    product(graph, queries, vectors),
  ]);
  const { name, hidden, activation } = options;
  const made = mlp(graph, pairs, { name, widths: [...hidden, 1], activation });
  const scores = reshaped(made, [1, positions]);
  const own = options.softmax === true ? shares(graph, scores, sequence) : scores;
  const weights = product(graph, own, sequenceMask(graph, sequence, factors));
  return reshaped(weightedSums(graph, weights, vectors), [dim]);
}

/** Scores (1,T) as shares of those that have an id. */
function shares(graph: GraphBuilder, scores: Value, sequence: Sequence): Value {
  return softmax(graph, sum(graph, scores, sequenceMask(graph, sequence, penalties)));
}

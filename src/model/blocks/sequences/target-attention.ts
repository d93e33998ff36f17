// Target attention (Deep Interest Network, Zhou et al., arXiv 1706.06978): a small MLP scores each
// vector of a sequence against a target. The sequence becomes the sum of its vectors, weighted by
// the scores.
//
// T = positions, D = columns of a vector.

import { checkShapes, type GraphBuilder, reshape, type Value } from "../../graph/graph.ts";
import { softmax, weightedSums } from "../attention.ts";
import { concatColumns, repeat } from "../columns.ts";
import { mul, sub, sum } from "../elements.ts";
import { type Activation, mlp } from "../mlp.ts";
import { factors, penalties, type Sequence, sequenceMask } from "./sequence-mask.ts";

export interface TargetAttentionOptions {
  /** Prefix of the layers of the scoring MLP: `name.0`, `name.1` … */
  readonly name: string;
  /** Widths of the hidden layers. The output layer, of one number, is not listed. */
  readonly hidden: readonly number[];
  /** The activation after each hidden layer. @default "relu" */
  readonly activation?: Activation;
  /**
   * Whether a softmax turns scores into weights that sum to 1. The paper uses none. @default false
   */
  readonly softmax?: boolean;
}

/**
 * Pools a sequence by its attention to a target (D). Returns (D): zeros for a sequence without ids.
 */
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
  const queries = repeat(graph, target, positions);
  const pairs = concatColumns(graph, [
    queries,
    vectors,
    sub(graph, queries, vectors),
    mul(graph, queries, vectors),
  ]);
  const { name, hidden, activation } = options;
  const made = mlp(graph, pairs, { name, widths: [...hidden, 1], activation });
  const scores = reshape(made, [1, positions]);
  const own = options.softmax === true ? shares(graph, scores, sequence) : scores;
  const weights = mul(graph, own, sequenceMask(graph, sequence, factors));
  return reshape(weightedSums(graph, weights, vectors), [dim]);
}

/** The softmax of scores (1,T) over the positions that have an id. */
function shares(graph: GraphBuilder, scores: Value, sequence: Sequence): Value {
  return softmax(graph, sum(graph, scores, sequenceMask(graph, sequence, penalties)));
}

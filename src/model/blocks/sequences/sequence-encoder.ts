// Encodes a sequence as one vector, by self-attention or transformer blocks (Vaswani et al., arXiv
// 1706.03762), then the mean over the positions that have an id. The target takes no part, so that
// samples with the same list share the work (RecD: Zhao et al., MLSys 2023, section 5).
//
// T = positions, D = columns of a vector.

import { type GraphBuilder, reshape, type Value } from "../../graph/graph.ts";
import { attention, softmax, weightedSums } from "../attention.ts";
import { repeat } from "../columns.ts";
import { mul, sum } from "../elements.ts";
import { linear } from "../linear.ts";
import { transformerBlock } from "./behavior-transformer.ts";
import { factors, penalties, recencies, type Sequence, sequenceMask } from "./sequence-mask.ts";

/** Which network encodes a sequence. */
export type SequenceEncoder =
  /**
   * Self-attention: `heads` share the columns; scores are scaled by the root of a head's columns;
   * no biases.
   */
  | { readonly kind: "attention"; readonly heads: number }
  /**
   * Transformer blocks. Each vector gets a learned position embedding, by its distance from the end
   * of the sequence. `hidden`: columns of a block's hidden layer. `dropout`: after attention and
   * layers.
   */
  | {
      readonly kind: "transformer";
      readonly blocks: number;
      readonly heads: number;
      readonly hidden: number;
      readonly dropout: number;
    };

/** Encodes a sequence, with parameters `name.…`. Returns (D): zeros for a sequence without ids. */
export function encodeSequence(
  graph: GraphBuilder,
  sequence: Sequence,
  name: string,
  encoder: SequenceEncoder,
): Value {
  const { vectors } = sequence;
  const [positions = 0, dim = 0] = vectors.shape;
  const absent = sequenceMask(graph, sequence, penalties);
  const mask = repeat(graph, reshape(absent, [positions]), positions);
  const mixed =
    encoder.kind === "attention"
      ? attention(graph, vectors, {
          name: `${name}.attention`,
          heads: encoder.heads,
          columns: dim,
          isScaled: true,
          mask,
        })
      : transformed(graph, sequence, name, { ...encoder, mask });
  // The softmax of zeros and penalties gives equal weights to the positions that have an id.
  const shares = mul(graph, softmax(graph, absent), sequenceMask(graph, sequence, factors));
  return reshape(weightedSums(graph, shares, mixed), [dim]);
}

function transformed(
  graph: GraphBuilder,
  sequence: Sequence,
  name: string,
  options: { blocks: number; heads: number; hidden: number; dropout: number; mask: Value },
): Value {
  const { vectors } = sequence;
  const [, dim = 0] = vectors.shape;
  const position = { name: `${name}.position`, outputs: dim, bias: false };
  let x = sum(graph, vectors, linear(graph, recencies(graph, sequence, 0), position));
  for (let i = 0; i < options.blocks; i++) {
    x = transformerBlock(graph, x, { ...options, name: `${name}.${i}` });
  }
  return x;
}

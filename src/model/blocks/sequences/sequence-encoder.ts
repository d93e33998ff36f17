// A sequence as one vector, by what its own ids say: self-attention, or transformer blocks (Vaswani
// et al., arXiv 1706.03762), then the mean over the positions that have an id. No target takes
// part, so that samples with one list share the work (RecD: Zhao et al., MLSys 2023, section 5).
//
// T = positions, D = columns of a vector.

import { type GraphBuilder, reshaped, type Value } from "../../graph/graph.ts";
import { attention, softmax, weightedSums } from "../attention.ts";
import { repeated } from "../columns.ts";
import { product, sum } from "../elements.ts";
import { linear } from "../linear.ts";
import { transformerBlock } from "./behavior-transformer.ts";
import { factors, penalties, recencies, type Sequence, sequenceMask } from "./sequence-mask.ts";

/** What a sequence is encoded by. */
export type SequenceEncoder =
  /** Heads that share the columns; scores over the root of a head's columns, no biases. */
  | { readonly kind: "attention"; readonly heads: number }
  /**
   * Blocks of attention and two layers. Each vector has a learned one for how far from the end of
   * the sequence it stands added to its own. `hidden`: columns of a block's hidden layer.
   * `dropout`: of what attention and layers give.
   */
  | {
      readonly kind: "transformer";
      readonly blocks: number;
      readonly heads: number;
      readonly hidden: number;
      readonly dropout: number;
    };

/** (D): the encoded sequence, zeros where it has no id. Its parameters are `name.…`. */
export function encodeSequence(
  graph: GraphBuilder,
  sequence: Sequence,
  name: string,
  encoder: SequenceEncoder,
): Value {
  const { vectors } = sequence;
  const [positions = 0, dim = 0] = vectors.shape;
  const absent = sequenceMask(graph, sequence, penalties);
  const mask = repeated(graph, reshaped(absent, [positions]), positions);
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
  // The softmax of zeros and penalties: equal shares of those that are there.
  const shares = product(graph, softmax(graph, absent), sequenceMask(graph, sequence, factors));
  return reshaped(weightedSums(graph, shares, mixed), [dim]);
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

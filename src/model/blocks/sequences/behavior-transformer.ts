// Transformer blocks over a sequence and its target item (Behavior Sequence Transformer, Chen et
// al., arXiv 1905.06874, sections 2.1 and 2.2; masks, biases and the pooling as in FuxiCTR).
//
// The target is position 0; the ids of the sequence follow. Each position's vector gets a learned
// position embedding, by its recency: 0 for the target, 1 for the last id, 2 for the id before it.
//
// T = positions, L = 1 + T, D = columns of a vector.

import { checkShapes, type GraphBuilder, reshape, type Value } from "../../graph/graph.ts";
import { attention, softmax, weightedSums } from "../attention.ts";
import { repeat, repeatColumns, slice } from "../columns.ts";
import { concat } from "../concat.ts";
import { leakyRelu, mul, sum } from "../elements.ts";
import { layerNorm } from "../layer-norm.ts";
import { linear } from "../linear.ts";
import { factors, penalties, recencies, type Sequence, sequenceMask } from "./sequence-mask.ts";

/**
 * Pooling of the last block's output: the mean of all vectors, the target's vector, or all of them.
 */
export type TransformerPooling = "mean" | "target" | "concat";

export interface BehaviorTransformerOptions {
  /**
   * Prefix of the parameters: `name.position.weight` (D,L), and those of blocks `name.0`, `name.1`
   * …
   */
  readonly name: string;
  readonly blocks: number;
  readonly heads: number;
  /** Columns of the hidden layer of a block. */
  readonly hidden: number;
  readonly pooling: TransformerPooling;
  /** Drop probability after attention and after the layers, in training. */
  readonly dropout: number;
}

/** Encodes a target (D) and its sequence (T,D). Returns (D), or (L D) for pooling `concat`. */
export function behaviorTransformer(
  graph: GraphBuilder,
  target: Value,
  sequence: Sequence,
  options: BehaviorTransformerOptions,
): Value {
  const { name, blocks, pooling } = options;
  const [positions = 0, dim = 0] = sequence.vectors.shape;
  const fit = target.shape.length === 1 && target.shape[0] === dim;
  checkShapes(fit, "a target is as wide as its sequence's vectors", target, sequence.vectors);
  const length = positions + 1;
  const together = concat(graph, [target, sequence.vectors]);
  const position = { name: `${name}.position`, outputs: dim, bias: false };
  const places = linear(graph, recencies(graph, sequence, 1), position);
  let x = sum(graph, reshape(together, [length, dim]), places);
  const absent = reshape(sequenceMask(graph, sequence, penalties, 1), [length]);
  const mask = repeat(graph, absent, length);
  for (let i = 0; i < blocks; i++) {
    x = transformerBlock(graph, x, { ...options, name: `${name}.${i}`, mask });
  }
  switch (pooling) {
    case "target": {
      const rows = reshape(x, [1, length * dim]);
      return reshape(slice(graph, rows, { first: 0, count: dim }), [dim]);
    }
    case "mean": {
      // The softmax of zeros and penalties gives equal weights to the positions that have an id.
      const shares = softmax(graph, reshape(absent, [1, length]));
      return reshape(weightedSums(graph, shares, x), [dim]);
    }
    case "concat": {
      const present = reshape(sequenceMask(graph, sequence, factors, 1), [length]);
      const kept = mul(graph, x, repeatColumns(graph, present, dim));
      return reshape(kept, [length * dim]);
    }
    default:
      return pooling satisfies never;
  }
}

/**
 * A transformer block: attention, then two linear layers, each with a residual connection and layer
 * normalisation. Takes and returns (L,D).
 */
export function transformerBlock(
  graph: GraphBuilder,
  x: Value,
  options: Pick<BehaviorTransformerOptions, "name" | "heads" | "hidden" | "dropout"> & {
    readonly mask: Value;
  },
): Value {
  const { name, heads, hidden, dropout, mask } = options;
  const [, dim = 0] = x.shape;
  const own = { name: `${name}.attention`, heads, columns: dim, bias: true, isScaled: true, mask };
  const mixed = attention(graph, x, own);
  const output = { name: `${name}.attention.output`, outputs: dim, dropout };
  const attended = linear(graph, mixed, output);
  const middle = layerNorm(graph, sum(graph, x, attended), { name: `${name}.norm1` });
  const made = linear(graph, middle, { name: `${name}.layers.0`, outputs: hidden });
  const last = { name: `${name}.layers.1`, outputs: dim, dropout };
  const layers = linear(graph, leakyRelu(graph, made), last);
  return layerNorm(graph, sum(graph, middle, layers), { name: `${name}.norm2` });
}

// Multi-head self-attention over vectors (Vaswani et al., arXiv 1706.03762; over the fields of a
// sample as in AutoInt, Song et al., arXiv 1810.11921).
//
// B = samples, F = vectors, D = columns of each, A = columns of a head.

import type { GraphBuilder, Memory, Pass, Value } from "../graph/graph.ts";
import { checkShapes, sizeOf } from "../graph/graph.ts";
import { concatColumns, slice } from "./columns.ts";
import { dotProducts } from "./dot-products.ts";
import { scaled, sum } from "./elements.ts";
import { linear } from "./linear.ts";

export interface AttentionOptions {
  /** Prefix of the parameters: `name.query.weight`, `name.key.weight` and `name.value.weight`. */
  readonly name: string;
  readonly heads: number;
  /** Columns of all heads together: A times `heads`. */
  readonly columns: number;
  /** Whether queries, keys and values have a bias `name.query.bias` … @default false */
  readonly bias?: boolean;
  /** Whether scores are divided by the square root of A. @default false */
  readonly isScaled?: boolean;
  /** (F,F): added to the scores of each head. @default none */
  readonly mask?: Value;
}

/**
 * Attention of each vector of x (F,D) over all vectors, with the heads concatenated. Returns (F,
 * columns).
 */
export function attention(graph: GraphBuilder, x: Value, options: AttentionOptions): Value {
  const { name, heads, columns, bias = false, isScaled = false, mask } = options;
  const fit = x.shape.length === 2 && columns % heads === 0;
  checkShapes(fit, `${heads} heads share ${columns} columns of the mix of some vectors`, x);
  const [queries, keys, values] = ["query", "key", "value"].map((part) =>
    linear(graph, x, { name: `${name}.${part}`, outputs: columns, bias }),
  ) as [Value, Value, Value];
  const count = columns / heads;
  const mixes = Array.from({ length: heads }, (_, head) => {
    const of = (all: Value) => slice(graph, all, { first: head * count, count });
    const query = isScaled ? scaled(graph, of(queries), count ** -0.5) : of(queries);
    const scores = dotProducts(graph, query, of(keys));
    const masked = mask === undefined ? scores : sum(graph, scores, mask);
    return weightedSums(graph, softmax(graph, masked), of(values));
  });
  return concatColumns(graph, mixes);
}

/** The softmax of each row of x (F,K). */
export function softmax(graph: GraphBuilder, x: Value): Value {
  const start = (memory: Memory) => startSoftmax(memory, x.shape);
  return graph.add({
    inputs: [x],
    shape: x.shape,
    elements: 2 * sizeOf(x),
    translate: (to) => to.op("Softmax", [to.x(0)], { axis: -1 }),
    start,
  });
}

function startSoftmax(memory: Memory, [rows = 0, columns = 0]: readonly number[]) {
  const { kernels } = memory;
  return {
    forward({ samples }: Pass): void {
      const shape = [samples * rows, columns];
      const out = kernels.reshape(memory.out(samples), shape);
      kernels.softmax(out, kernels.reshape(memory.x(0, samples), shape));
    },

    backward({ samples }: Pass): void {
      const to = memory.dX(0, samples);
      if (to === undefined) return;
      const shape = [samples * rows, columns];
      const [dX, dOut, out] = [to, memory.dOut(samples), memory.out(samples)].map((own) =>
        kernels.reshape(own, shape),
      ) as [typeof to, typeof to, typeof to];
      kernels.dSoftmax(dX, dOut, out);
    },
  };
}

/** Weighted sums of vectors, per sample: weights (F,K) times vectors (K,A). Returns (F,A). */
export function weightedSums(graph: GraphBuilder, weights: Value, vectors: Value): Value {
  const [rows = 0, inner = 0] = weights.shape;
  const [, columns = 0] = vectors.shape;
  return graph.add({
    inputs: [weights, vectors],
    shape: [rows, columns],
    products: rows * inner * columns,
    elements: sizeOf(weights) + sizeOf(vectors) + rows * columns,
    translate: (to) => to.op("MatMul", [to.x(0), to.x(1)]),
    start: startWeightedSums,
  });
}

function startWeightedSums(memory: Memory) {
  const { kernels } = memory;
  return {
    forward({ samples }: Pass): void {
      kernels.products(memory.out(samples), memory.x(0, samples), memory.x(1, samples), "ab");
    },

    backward({ samples }: Pass): void {
      const dOut = memory.dOut(samples);
      const [dWeights, dVectors] = [memory.dX(0, samples), memory.dX(1, samples)];
      if (dWeights !== undefined) {
        kernels.products(dWeights, dOut, memory.x(1, samples), "abT");
      }
      if (dVectors !== undefined) {
        kernels.products(dVectors, memory.x(0, samples), dOut, "aTb");
      }
    },
  };
}

// Dot products of each vector of one value with each vector of another value, or with learned
// weighted sums of the same vectors.
//
// B = samples, N and K = vectors, D = columns of each.

import type { GraphBuilder, Memory, Pass, Value } from "../graph/graph.ts";
import { checkShapes } from "../graph/graph.ts";
import { glorot } from "../graph/parameters.ts";

/** Dot products of the vectors of a (N,D) with the vectors of b (K,D). Returns (N,K). */
export function dotProducts(graph: GraphBuilder, a: Value, b: Value): Value {
  const [rows = 0, dim = 0] = a.shape;
  const [columns = 0, other] = b.shape;
  const fit = a.shape.length === 2 && b.shape.length === 2 && dim === other;
  checkShapes(fit, "both values have vectors of one width", a, b);
  return graph.add({
    inputs: [a, b],
    shape: [rows, columns],
    keepsGradient: true,
    products: rows * columns * dim,
    elements: (rows + columns) * dim + rows * columns,
    translate: (to) =>
      to.op("MatMul", [to.x(0), to.op("Transpose", [to.x(1)], { perm: [0, 2, 1] })]),
    start: startDotProducts,
  });
}

function startDotProducts(memory: Memory) {
  const { kernels } = memory;
  return {
    forward({ samples }: Pass): void {
      kernels.products(memory.out(samples), memory.x(0, samples), memory.x(1, samples), "abT");
    },

    backward({ samples }: Pass): void {
      const dOut = memory.dOut(samples);
      const [dA, dB] = [memory.dX(0, samples), memory.dX(1, samples)];
      if (dA !== undefined) kernels.products(dA, dOut, memory.x(1, samples), "ab");
      if (dB !== undefined) kernels.products(dB, dOut, memory.x(0, samples), "aTb");
    },
  };
}

/**
 * Dot products of the vectors of x (N,D) with y = `weight` (K,N) x. Equals `dotProducts` of x and
 * its `fieldLinear`, but one kernel computes both, a sample at a time. Returns (N,K).
 */
export function rankProducts(
  graph: GraphBuilder,
  x: Value,
  options: {
    /** Prefix of the parameter `name.weight`. */
    readonly name: string;
    /** K, the number of weighted sums. */
    readonly rank: number;
  },
): Value {
  const [vectors = 0, dim = 0] = x.shape;
  const { name, rank } = options;
  checkShapes(x.shape.length === 2, "there are vectors to weigh", x);
  const weight = `${name}.weight`;
  const ownProducts = vectors * rank * dim;
  return graph.add({
    inputs: [x],
    shape: [vectors, rank],
    parameters: [{ name: weight, shape: [rank, vectors], scale: glorot(vectors, rank) }],
    keepsGradient: true,
    adds: true,
    products: rank * vectors * dim + ownProducts,
    ownProducts,
    elements: 2 * (rank + vectors) * dim + vectors * rank,
    translate: (to) => {
      const y = to.op("MatMul", [to.parameter(weight), to.x(0)]);
      return to.op("MatMul", [to.x(0), to.op("Transpose", [y], { perm: [0, 2, 1] })]);
    },
    start: (memory) => startRankProducts(memory, { weight, rank, vectors, dim }),
  });
}

function startRankProducts(
  memory: Memory,
  { weight, rank, vectors, dim }: { weight: string; rank: number; vectors: number; dim: number },
) {
  const { kernels, samplesMax } = memory;
  const w = memory.parameter(weight);
  const dW = memory.gradients(weight);
  const sums = kernels.tensor([samplesMax, rank, dim]);
  // The kernel always writes a gradient of x; where x needs none, this buffer takes it.
  const unread =
    memory.dX(0, 1) === undefined ? kernels.tensor([samplesMax, vectors, dim]) : undefined;
  return {
    forward({ samples }: Pass): void {
      const y = kernels.part(sums, 0, samples);
      kernels.rankProducts(memory.out(samples), y, memory.x(0, samples), w);
    },

    backward({ samples, slices }: Pass): void {
      const dX = memory.dX(0, samples) ?? (unread && kernels.part(unread, 0, samples));
      if (dX === undefined) return;
      const operands = { x: memory.x(0, samples), y: kernels.part(sums, 0, samples), w };
      const others = memory.others(0, samples);
      kernels.dRankProducts(dX, dW, memory.dOut(samples), operands, slices, others);
    },
  };
}

// The dot products of each vector of one value with each vector of another.
//
// B = samples, N and K = vectors, D = columns of each.

import type { GraphBuilder, Memory, Pass, Value } from "../graph/graph.ts";
import { checkShapes } from "../graph/graph.ts";

/** a (N,D) times b (K,D) transposed. Returns (N,K). */
export function dotProducts(graph: GraphBuilder, a: Value, b: Value): Value {
  const [rows = 0, dim = 0] = a.shape;
  const [columns = 0, other] = b.shape;
  const fit = a.shape.length === 2 && b.shape.length === 2 && dim === other;
  checkShapes(fit, "both values have vectors of one width", a, b);
  return graph.add({
    inputs: [a, b],
    shape: [rows, columns],
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

// A layer of the compressed interaction network (xDeepFM, Lian et al., arXiv 1803.05170): weighted
// sums of the column-by-column products of each vector of one value with each vector of another.
//
// B = samples, M and N = vectors, D = columns of each, H = new vectors.

import type { GraphBuilder, Memory, Pass, Value } from "../graph/graph.ts";
import { checkShapes, reshape } from "../graph/graph.ts";
import { withAxis } from "../graph/translation.ts";
import { fieldLinear } from "./field-linear.ts";

/** Combines a (M,D) and b (N,D). The parameter is `name.weight` (H, M*N). Returns (H,D). */
export function compressedInteraction(
  graph: GraphBuilder,
  a: Value,
  b: Value,
  { name, vectors }: { readonly name: string; readonly vectors: number },
): Value {
  const [rows = 0, dim = 0] = a.shape;
  const [columns = 0, other] = b.shape;
  const fit = a.shape.length === 2 && b.shape.length === 2 && dim === other;
  checkShapes(fit, "both values have vectors of one width", a, b);
  const pairs = graph.add({
    inputs: [a, b],
    shape: [rows, columns, dim],
    products: rows * columns * dim,
    elements: rows * columns * dim,
    translate: (to) => to.op("Mul", [withAxis(to, to.x(0), 2), withAxis(to, to.x(1), 1)]),
    start: startPairs,
  });
  return fieldLinear(graph, reshape(pairs, [rows * columns, dim]), { name, vectors });
}

function startPairs(memory: Memory) {
  const { kernels } = memory;
  return {
    forward({ samples }: Pass): void {
      kernels.pairs(memory.out(samples), memory.x(0, samples), memory.x(1, samples));
    },

    backward({ samples }: Pass): void {
      const dOut = memory.dOut(samples);
      const [dA, dB] = [memory.dX(0, samples), memory.dX(1, samples)];
      if (dA !== undefined) kernels.dPairsLeft(dA, dOut, memory.x(1, samples));
      if (dB !== undefined) kernels.dPairsRight(dB, dOut, memory.x(0, samples));
    },
  };
}

// Dot-product interaction of DLRM (Naumov et al., arXiv 1906.00091, section 2): the first vectors
// themselves, followed by the dot products of all pairs.
//
// F = vectors, D = columns of each.

import type { GraphBuilder, Memory, Pass, Value } from "../graph/graph.ts";
import { checkShapes, sizeOf } from "../graph/graph.ts";
import { type Name, slicedColumns, type Translation } from "../graph/translation.ts";

/**
 * Takes x (F*D) or (F,D). Concatenates the first `copied` vectors and the dot products of all
 * pairs, row by row below the diagonal. Returns (copied*D + F(F-1)/2).
 */
export function interaction(
  graph: GraphBuilder,
  x: Value,
  options: { readonly vectors: number; readonly dim: number; readonly copied: number },
): Value {
  const { vectors, dim, copied } = options;
  const fit = sizeOf(x) === vectors * dim && copied <= vectors;
  checkShapes(fit, `there are ${vectors} vectors of ${dim} columns`, x);
  const pairs = (vectors * (vectors - 1)) / 2;
  return graph.add({
    inputs: [x],
    shape: [copied * dim + pairs],
    products: pairs * dim,
    elements: pairs,
    translate: (to) => translateInteraction(to, options),
    start: (memory) => startInteraction(memory, options),
  });
}

function translateInteraction(
  to: Translation,
  { vectors, dim, copied }: { vectors: number; dim: number; copied: number },
): Name {
  const flat = to.op("Reshape", [to.x(0), to.integers([-1, vectors * dim])]);
  const x = to.op("Reshape", [flat, to.integers([-1, vectors, dim])]);
  const square = to.op("MatMul", [x, to.op("Transpose", [x], { perm: [0, 2, 1] })]);
  const all = to.op("Reshape", [square, to.integers([-1, vectors * vectors])]);
  const below = Array.from({ length: vectors }, (_, i) =>
    Array.from({ length: i }, (_, j) => i * vectors + j),
  );
  const pairs = to.op("Gather", [all, to.integers(below.flat())], { axis: 1 });
  if (copied === 0) return pairs;
  return to.op("Concat", [slicedColumns(to, flat, 0, copied * dim), pairs], { axis: 1 });
}

function startInteraction(
  memory: Memory,
  { vectors, dim, copied }: { vectors: number; dim: number; copied: number },
) {
  const { kernels } = memory;
  const xOf = (samples: number) => kernels.reshape(memory.x(0, samples), [samples, vectors, dim]);
  return {
    forward({ samples }: Pass): void {
      kernels.interact(memory.out(samples), xOf(samples), copied, true);
    },

    backward({ samples }: Pass): void {
      const to = memory.dX(0, samples);
      if (to === undefined) return;
      const dX = kernels.reshape(to, [samples, vectors, dim]);
      kernels.dInteract(dX, memory.dOut(samples), xOf(samples), copied, true);
    },
  };
}

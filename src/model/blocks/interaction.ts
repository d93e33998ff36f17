// The interaction of vectors: dot products of all pairs, behind the first vectors themselves
// (Naumov et al., arXiv 1906.00091, section 2).
//
// F = vectors, D = columns of each.

import type { GraphBuilder, Memory, Pass, Value } from "../graph/graph.ts";
import { checkShapes, sizeOf } from "../graph/graph.ts";

/**
 * From x (F*D) or (F,D): the first `copied` vectors side by side, then the dot products of all
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
    start: (memory) => startInteraction(memory, options),
  });
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

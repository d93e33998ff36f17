// The second-order term of a factorisation machine (Rendle 2010): the sum of the dot products of
// all pairs of vectors.
//
// B = samples, F = vectors, D = columns of each.

import type { GraphBuilder, Memory, Pass, Value } from "../graph/graph.ts";
import { sizeOf } from "../graph/graph.ts";
import { summed } from "../graph/translation.ts";

/** Sums the dot products of all pairs of the vectors of x (F,D). Returns (1). */
export function factorisationMachine(graph: GraphBuilder, x: Value): Value {
  const elements = sizeOf(x);
  return graph.add({
    inputs: [x],
    shape: [1],
    products: 2 * elements,
    elements,
    translate: (to) => {
      const total = summed(to, to.x(0), 1);
      const squares = summed(to, to.op("Mul", [to.x(0), to.x(0)]), 1);
      const pairs = to.op("Sub", [to.op("Mul", [total, total]), squares]);
      const all = to.op("ReduceSum", [pairs, to.integers([1])], { keepdims: 1 });
      return to.op("Mul", [all, to.numbers([1], [0.5])]);
    },
    start: startFactorisationMachine,
  });
}

function startFactorisationMachine(memory: Memory) {
  const { kernels } = memory;
  return {
    forward({ samples }: Pass): void {
      kernels.pairSum(memory.out(samples), memory.x(0, samples));
    },

    backward({ samples }: Pass): void {
      const dX = memory.dX(0, samples);
      if (dX !== undefined) kernels.dPairSum(dX, memory.dOut(samples), memory.x(0, samples));
    },
  };
}

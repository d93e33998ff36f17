// The sum of two values of one shape.

import type { GraphBuilder, Memory, Pass, Value } from "../graph/graph.ts";
import { sizeOf } from "../graph/graph.ts";

/** a + b, element by element. */
export function sum(graph: GraphBuilder, a: Value, b: Value): Value {
  return graph.add({ inputs: [a, b], shape: a.shape, elements: 3 * sizeOf(a), start: startSum });
}

function startSum(memory: Memory) {
  const { kernels } = memory;
  return {
    forward({ samples }: Pass): void {
      kernels.add(memory.out(samples), memory.x(0, samples), memory.x(1, samples));
    },

    backward({ samples }: Pass): void {
      for (const input of [0, 1]) {
        const dX = memory.dX(input, samples);
        if (dX !== undefined) kernels.copy(dX, memory.dOut(samples));
      }
    },
  };
}

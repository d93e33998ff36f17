// A learned scalar that is added to one number per sample.

import type { GraphBuilder, Memory, Pass, Value } from "../graph/graph.ts";
import { checkShapes, sizeOf } from "../graph/graph.ts";

/** x (1) plus the parameter `name` (1). Returns (1). */
export function bias(graph: GraphBuilder, x: Value, name: string): Value {
  checkShapes(sizeOf(x) === 1, "a bias is added to one number", x);
  return graph.add({
    inputs: [x],
    shape: [1],
    parameters: [{ name, shape: [1] }],
    products: 1,
    elements: 2,
    translate: (to) => to.op("Add", [to.x(0), to.parameter(name)]),
    start: (memory) => startBias(memory, name),
  });
}

function startBias(memory: Memory, name: string) {
  const { kernels } = memory;
  const [own, dOwn] = [memory.parameter(name), memory.gradients(name)];
  const one = kernels.tensor([1, 1]);
  kernels.fill(one, 1);
  const unread = dOwn.map(() => kernels.tensor([1, 1]));
  return {
    forward({ samples }: Pass): void {
      kernels.linear(memory.out(samples), memory.x(0, samples), one, own, false);
    },

    backward({ samples, slices }: Pass): void {
      const dOut = memory.dOut(samples);
      kernels.dLinearWeight(unread, dOwn, dOut, memory.x(0, samples), slices);
      const dX = memory.dX(0, samples);
      if (dX !== undefined) kernels.copy(dX, dOut);
    },
  };
}

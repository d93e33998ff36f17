// A learned vector that is the same for every sample.

import type { GraphBuilder, Memory, Pass, Value } from "../graph/graph.ts";

/**
 * The parameter `name` (columns), repeated for each sample; all elements start at `center`. Returns
 * (columns).
 */
export function parameter(graph: GraphBuilder, name: string, columns: number, center = 0): Value {
  return graph.add({
    inputs: [],
    shape: [columns],
    parameters: [{ name, shape: [columns], center }],
    elements: columns,
    translate: (to) => {
      const shape = to.op("Concat", [to.samples(), to.integers([columns])], { axis: 0 });
      return to.op("Expand", [to.parameter(name), shape]);
    },
    start: (memory) => startLearnedVector(memory, name, columns),
  });
}

function startLearnedVector(memory: Memory, name: string, columns: number) {
  const { kernels, samplesMax } = memory;
  const [own, dOwn] = [memory.parameter(name), memory.gradients(name)];
  // Computed as a linear layer with an input of zeros: the output is the bias.
  const [x, weight] = [kernels.tensor([samplesMax, 1]), kernels.tensor([columns, 1])];
  const unread = dOwn.map(() => kernels.tensor([columns, 1]));
  return {
    forward({ samples }: Pass): void {
      kernels.linear(memory.out(samples), kernels.part(x, 0, samples), weight, own, false);
    },

    backward({ samples, slices }: Pass): void {
      const input = kernels.part(x, 0, samples);
      kernels.dLinearWeight(unread, dOwn, memory.dOut(samples), input, slices);
    },
  };
}

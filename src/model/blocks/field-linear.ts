// A linear layer over the axis of vectors: each output vector is a weighted sum of the input
// vectors, with the same weights for all samples and columns. It has no bias.
//
// B = samples, N = input vectors, M = output vectors, D = columns.

import type { GraphBuilder, Memory, Pass, Value } from "../graph/graph.ts";
import { checkShapes } from "../graph/graph.ts";
import { glorot } from "../graph/parameters.ts";

/** The parameter `weight` (M,N) times x (N,D). Returns (M,D). */
export function fieldLinear(
  graph: GraphBuilder,
  x: Value,
  options: {
    /** Prefix of the parameter `name.weight`. */
    readonly name: string;
    /** M, the number of output vectors. */
    readonly vectors: number;
    /** Scale of the initial weights. @default that of Glorot and Bengio */
    readonly scale?: number;
  },
): Value {
  const [inputs = 0, dim = 0] = x.shape;
  const { name, vectors, scale = glorot(inputs, vectors) } = options;
  checkShapes(x.shape.length === 2, "there are vectors to weigh", x);
  const weight = `${name}.weight`;
  return graph.add({
    inputs: [x],
    shape: [vectors, dim],
    parameters: [{ name: weight, shape: [vectors, inputs], scale }],
    keepsGradient: true,
    adds: true,
    products: vectors * inputs * dim,
    elements: (vectors + inputs) * dim,
    translate: (to) => to.op("MatMul", [to.parameter(weight), to.x(0)]),
    start: (memory) => startSharedProduct(memory, weight),
  });
}

function startSharedProduct(memory: Memory, name: string) {
  const { kernels } = memory;
  const weight = memory.parameter(name);
  const dWeight = memory.gradients(name);
  return {
    forward({ samples }: Pass): void {
      kernels.products(memory.out(samples), weight, memory.x(0, samples), "ab");
    },

    backward({ samples, slices }: Pass): void {
      const dOut = memory.dOut(samples);
      kernels.dShared(dWeight, dOut, memory.x(0, samples), slices);
      const dX = memory.dX(0, samples);
      if (dX === undefined) return;
      kernels.products(dX, weight, dOut, "aTb", memory.others(0, samples));
    },
  };
}

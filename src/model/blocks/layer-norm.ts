// Layer normalisation over the last axis (Ba et al., arXiv 1607.06450).
//
// B = samples, L = rows of a sample, D = columns.

import type { GraphBuilder, Memory, Pass, Value } from "../graph/graph.ts";
import { sizeOf } from "../graph/graph.ts";

/** As in PyTorch. */
const epsilon = 1e-5;

/**
 * Normalises each row of x (…,D) to mean 0 and deviation 1, then applies gain and bias. Returns
 * (…,D).
 */
export function layerNorm(
  graph: GraphBuilder,
  x: Value,
  options: {
    /** Prefix of the parameters `name.weight` (D), the gain, and `name.bias` (D). */
    readonly name: string;
  },
): Value {
  const dim = x.shape.at(-1) ?? 0;
  const [weight, bias] = [`${options.name}.weight`, `${options.name}.bias`];
  return graph.add({
    inputs: [x],
    shape: x.shape,
    parameters: [
      { name: weight, shape: [dim], center: 1 },
      { name: bias, shape: [dim] },
    ],
    keepsGradient: true,
    elements: 2 * sizeOf(x),
    translate: (to) => {
      const inputs = [to.x(0), to.parameter(weight), to.parameter(bias)];
      return to.op("LayerNormalization", inputs, { axis: -1, epsilon: { float: epsilon } });
    },
    start: (memory) => startLayerNorm(memory, { weight, bias, dim, rows: sizeOf(x) / dim }),
  });
}

function startLayerNorm(
  memory: Memory,
  { dim, rows, ...names }: { weight: string; bias: string; dim: number; rows: number },
) {
  const { kernels, samplesMax } = memory;
  const [gain, bias] = [memory.parameter(names.weight), memory.parameter(names.bias)];
  const [dGain, dBias] = [memory.gradients(names.weight), memory.gradients(names.bias)];
  const kept = kernels.tensor([samplesMax * rows, 2]);
  const shaped = (samples: number) => ({
    x: kernels.reshape(memory.x(0, samples), [samples * rows, dim]),
    saved: kernels.part(kept, 0, samples * rows),
  });
  return {
    forward({ samples }: Pass): void {
      const { x, saved } = shaped(samples);
      kernels.layerNorm(memory.out(samples), saved, x, gain, bias, epsilon);
    },

    backward({ samples, slices }: Pass): void {
      const { x, saved } = shaped(samples);
      const dOut = kernels.reshape(memory.dOut(samples), [samples * rows, dim]);
      const bounds = slices.bounds.map((sample) => rows * sample);
      const [dX, operands] = [memory.dX(0, samples), { saved, x, gain }];
      kernels.dLayerNorm(dX, dGain, dBias, dOut, operands, { ...slices, bounds });
    },
  };
}

// Dense parameters: one flat tensor, and the position of each named parameter in it. Flat, so that
// the exchange sums one vector and the optimizer is one call.

import type { Kernels, Tensor } from "../kernels/contract/kernels.ts";
import { type Key, purposes } from "../ports/random.ts";

export interface Parameter {
  /** The name as in PyTorch's golden files: `bottom.0.weight`, `top.1.bias`. */
  readonly name: string;
  readonly shape: readonly number[];
  /** First element in the flat tensor. */
  readonly first: number;
  readonly length: number;
  /** Initialised uniformly in ±scale; 0 for biases. */
  readonly scale: number;
}

export interface ParameterLayout {
  readonly parameters: readonly Parameter[];
  readonly length: number;
}

/** The layout of MLPs: for each, the widths from its input on. */
export function layoutParameters(
  mlps: readonly { name: string; widths: readonly number[] }[],
): ParameterLayout {
  const parameters: Parameter[] = [];
  let length = 0;
  const add = (name: string, shape: readonly number[], scale: number) => {
    const count = shape.reduce((product, extent) => product * extent, 1);
    parameters.push({ name, shape, first: length, length: count, scale });
    length += count;
  };
  for (const { name, widths } of mlps) {
    for (let layer = 0; layer + 1 < widths.length; layer++) {
      const inputs = widths[layer] ?? 0;
      const outputs = widths[layer + 1] ?? 0;
      // Glorot and Bengio 2010: keeps the variance of activations and of gradients.
      const scale = Math.sqrt(6 / (inputs + outputs));
      add(`${name}.${layer}.weight`, [outputs, inputs], scale);
      add(`${name}.${layer}.bias`, [outputs], 0);
    }
  }
  return { parameters, length };
}

/** Fills the flat tensor with initial values from the job's seed. */
export function initParameters(
  kernels: Kernels,
  flat: Tensor,
  layout: ParameterLayout,
  key: Key,
): void {
  for (const { shape, first, scale } of layout.parameters) {
    const tensor = kernels.reshape(flat, shape, first);
    if (scale === 0) kernels.fill(tensor, 0);
    else kernels.uniform(tensor, key, purposes.denseInit, first, scale);
  }
}

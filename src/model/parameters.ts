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

/**
 * The layout of MLPs, for each the widths from its input on, and then of linear layers without a
 * bias.
 */
export function layoutParameters(
  mlps: readonly { name: string; widths: readonly number[] }[],
  linears: readonly { name: string; inputs: number; outputs: number }[] = [],
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
      add(`${name}.${layer}.weight`, [outputs, inputs], glorot(inputs, outputs));
      add(`${name}.${layer}.bias`, [outputs], 0);
    }
  }
  for (const { name, inputs, outputs } of linears) {
    add(name, [outputs, inputs], glorot(inputs, outputs));
  }
  return { parameters, length };
}

/** Glorot and Bengio 2010: keeps the variance of activations and of gradients. */
function glorot(inputs: number, outputs: number): number {
  return Math.sqrt(6 / (inputs + outputs));
}

/** A parameter by its name, in flat parameters or in a flat gradient; shares memory. */
export function parameterIn(
  kernels: Kernels,
  flat: Tensor,
  layout: ParameterLayout,
  name: string,
): Tensor {
  const parameter = layout.parameters.find((candidate) => candidate.name === name);
  if (parameter === undefined) throw new RangeError(`The model has no parameter ${name}`);
  return kernels.reshape(flat, parameter.shape, parameter.first);
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

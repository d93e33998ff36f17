// Dense parameters: one flat tensor, and the position of each named parameter in it. One tensor
// lets the exchange sum one vector, and the optimizer run in one call.

import type { Kernels, Tensor } from "../../kernels/contract/kernels.ts";
import { type Key, purposes } from "../../ports/random.ts";

/** A parameter that a block declares. */
export interface ParameterSpec {
  /** The name as in PyTorch: `bottom.0.weight`, `top.1.bias`. */
  readonly name: string;
  readonly shape: readonly number[];
  /** Initialised uniformly in ±scale around `center`. @default 0 */
  readonly scale?: number;
  /** @default 0 */
  readonly center?: number;
  /**
   * Whether it is a running statistic of the batches, which takes no gradient: the optimizer skips
   * it. @default false
   */
  readonly isStatistic?: boolean;
}

export interface Parameter extends Required<ParameterSpec> {
  /** First element in the flat tensor. */
  readonly first: number;
  readonly length: number;
}

export interface ParameterLayout {
  readonly parameters: readonly Parameter[];
  readonly length: number;
  /** Elements that take gradients; they come first. */
  readonly trained: number;
}

/** Lays the parameters out consecutively, statistics last. */
export function layoutParameters(specs: readonly ParameterSpec[]): ParameterLayout {
  let length = 0;
  let trained = 0;
  const isLast = ({ isStatistic = false }: ParameterSpec) => isStatistic;
  const ordered = [...specs.filter((spec) => !isLast(spec)), ...specs.filter(isLast)];
  const parameters = ordered.map((own): Parameter => {
    const { scale = 0, center = 0, isStatistic = false, ...spec } = own;
    const count = spec.shape.reduce((product, extent) => product * extent, 1);
    length += count;
    if (!isStatistic) trained = length;
    return { ...spec, scale, center, isStatistic, first: length - count, length: count };
  });
  return { parameters, length, trained };
}

/**
 * The scale of Glorot and Bengio 2010, which preserves the variance of activations and of
 * gradients.
 */
export function glorot(inputs: number, outputs: number): number {
  return Math.sqrt(6 / (inputs + outputs));
}

/** A view of the named parameter, in the flat parameters or in a flat gradient. */
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
  for (const { shape, first, scale, center } of layout.parameters) {
    const tensor = kernels.reshape(flat, shape, first);
    if (scale === 0) {
      kernels.fill(tensor, center);
      continue;
    }
    kernels.uniform(tensor, key, purposes.denseInit, first, scale);
    if (center !== 0) {
      kernels.write(
        tensor,
        kernels.read(tensor).map((value) => value + center),
      );
    }
  }
}

// A stack of linear layers with ReLU between them. B = samples; layer l takes
// widths[l] to widths[l+1].

import type { DensePrecision, Kernels, Tensor } from "../kernels/contract/kernels.ts";
import type { Slices } from "../kernels/contract/slices.ts";
import type { Key } from "../ports/random.ts";
import { type ParameterLayout, parameterIn } from "./parameters.ts";

interface Layer {
  readonly weight: Tensor;
  readonly bias: Tensor;
  readonly relu: boolean;
  /** (Bmax, O): the layer's output in the last forward pass. */
  readonly out: Tensor;
  /** (Bmax, I): the gradient of the layer's input. */
  readonly dIn: Tensor;
}

export interface Mlp {
  readonly kernels: Kernels;
  /** Precision of the layers' products. */
  readonly precision: DensePrecision;
  readonly layers: readonly Layer[];
  readonly widths: readonly number[];
}

/** The gradients of the layers: one tensor for each finished subtree of slices. */
export interface MlpGradients {
  readonly dWeights: readonly (readonly Tensor[])[];
  readonly dBiases: readonly (readonly Tensor[])[];
}

/**
 * Selects the dropped units: a function of seed, layer, step and the sample's index in the batch.
 */
export interface Dropout {
  readonly rate: number;
  readonly key: Key;
  /** Purpose of the first layer; each layer has the next one. */
  readonly purpose: number;
  readonly step: number;
  readonly firstSample: number;
}

/** The layers named `name.0`, `name.1` … over the flat parameters. */
export function createMlp(options: {
  readonly kernels: Kernels;
  readonly precision: DensePrecision;
  readonly name: string;
  readonly widths: readonly number[];
  readonly flat: Tensor;
  readonly layout: ParameterLayout;
  readonly reluLast: boolean;
  readonly samplesMax: number;
}): Mlp {
  const { kernels, name, widths, flat, layout, samplesMax } = options;
  const layers: Layer[] = [];
  for (let layer = 0; layer + 1 < widths.length; layer++) {
    layers.push({
      weight: parameterIn(kernels, flat, layout, `${name}.${layer}.weight`),
      bias: parameterIn(kernels, flat, layout, `${name}.${layer}.bias`),
      relu: options.reluLast || layer + 2 < widths.length,
      out: kernels.tensor([samplesMax, widths[layer + 1] ?? 0]),
      dIn: kernels.tensor([samplesMax, widths[layer] ?? 0]),
    });
  }
  return { kernels, precision: options.precision, layers, widths };
}

/** The parts of flat gradients that belong to the layers of `name`. */
export function mlpGradients(
  kernels: Kernels,
  name: string,
  layers: number,
  layout: ParameterLayout,
  flats: readonly Tensor[],
): MlpGradients {
  const of = (parameter: string) =>
    flats.map((flat) => parameterIn(kernels, flat, layout, parameter));
  const indices = Array.from({ length: layers }, (_, layer) => layer);
  return {
    dWeights: indices.map((layer) => of(`${name}.${layer}.weight`)),
    dBiases: indices.map((layer) => of(`${name}.${layer}.bias`)),
  };
}

/** out (B, last width) from x (B, first width). `dropout`, if given, drops hidden units. */
export function forwardMlp(mlp: Mlp, x: Tensor, dropout?: Dropout): Tensor {
  const { kernels, precision } = mlp;
  const samples = x.shape[0] ?? 0;
  let input = x;
  for (const [index, layer] of mlp.layers.entries()) {
    const out = kernels.part(layer.out, 0, samples);
    kernels.linear(out, input, layer.weight, layer.bias, layer.relu, precision);
    if (index + 1 < mlp.layers.length) drop(kernels, out, index, dropout);
    input = out;
  }
  return input;
}

/**
 * dX (B, first width) from dOut (B, last width), which it overwrites; `x` is the forward pass's.
 * The layers' gradients go to `gradients`. Without `needsInput` the first layer's dX is left out.
 */
export function backwardMlp(
  mlp: Mlp,
  dOut: Tensor,
  x: Tensor,
  slices: Slices,
  gradients: MlpGradients,
  options: { readonly needsInput: boolean; readonly dropout?: Dropout | undefined },
): Tensor {
  const { kernels, precision } = mlp;
  const samples = x.shape[0] ?? 0;
  let d = dOut;
  for (let index = mlp.layers.length - 1; index >= 0; index--) {
    const layer = mlp.layers[index];
    if (layer === undefined) break;
    if (index + 1 < mlp.layers.length) drop(kernels, d, index, options.dropout);
    if (layer.relu) kernels.dRelu(d, kernels.part(layer.out, 0, samples));
    const below = mlp.layers[index - 1];
    const input = below === undefined ? x : kernels.part(below.out, 0, samples);
    const dWeight = gradients.dWeights[index] ?? [];
    const dBias = gradients.dBiases[index] ?? [];
    kernels.dLinearWeight(dWeight, dBias, d, input, slices, precision);
    if (index > 0 || options.needsInput) {
      const dInput = kernels.part(layer.dIn, 0, samples);
      kernels.dLinearInput(dInput, d, layer.weight, precision);
      d = dInput;
    }
  }
  return d;
}

/** Dropout is its own backward: the same mask, drawn again. */
function drop(kernels: Kernels, x: Tensor, layer: number, dropout: Dropout | undefined): void {
  if (dropout === undefined || dropout.rate === 0) return;
  const { key, purpose, step, firstSample, rate } = dropout;
  kernels.dropout(x, key, purpose + layer, step, firstSample, rate);
}

// The kernels of blocks on random input of odd shapes.

import type { Kernels, Tensor } from "../../src/kernels/contract/kernels.ts";
import { slicesOf, subtreesOf } from "../../src/kernels/contract/slices.ts";
import type { RandomStream } from "../../src/ports/random.ts";
import { operands } from "./block-cases.ts";
import { random, type Scenario } from "./scenarios.ts";

const elements: Scenario = (kernels, stream) => {
  const [a, b] = [random(kernels, stream, [7, 13]), random(kernels, stream, [7, 13])];
  const [sum, product] = [kernels.tensor([7, 13]), kernels.tensor([7, 13])];
  kernels.add(sum, a, b);
  kernels.multiply(product, a, b);
  return read(kernels, [sum, product]);
};

const products: Scenario = (kernels, stream) => {
  const shape = (most: number) => 1 + stream.below(most);
  const outputs: Tensor[] = [];
  for (const form of ["ab", "abT", "aTb"] as const) {
    for (const isShared of [false, true]) {
      const [samples, rows, columns, depth] = [shape(5), shape(40), shape(70), shape(40)];
      const extents = [samples, rows, columns, depth] as const;
      const [a, b] = operands(kernels, stream, form, extents, isShared);
      const out = kernels.tensor([samples, rows, columns]);
      kernels.products(out, a, b, form);
      outputs.push(out);
    }
  }
  const [samples, rows, columns, depth] = [2 + shape(9), shape(20), shape(30), shape(40)];
  const slices = slicesOf(1, 3, 8, samples);
  const own = slices.bounds.at(-1) ?? 0;
  const dA = subtreesOf(1, 3).map(() => kernels.tensor([rows, depth]));
  const dOut = random(kernels, stream, [own, rows, columns]);
  kernels.dShared(dA, dOut, random(kernels, stream, [own, depth, columns]), slices);
  return read(kernels, [...outputs, ...dA]);
};

const layerNorms: Scenario = (kernels, stream) => {
  const [rows, dim] = [8 + stream.below(9), 1 + stream.below(100)];
  const [x, dOut] = [random(kernels, stream, [rows, dim]), random(kernels, stream, [rows, dim])];
  const [gain, bias] = [random(kernels, stream, [dim]), random(kernels, stream, [dim])];
  const [out, saved, dX] = [
    [rows, dim],
    [rows, 2],
    [rows, dim],
  ].map((s) => kernels.tensor(s));
  if (out === undefined || saved === undefined || dX === undefined) return [];
  kernels.layerNorm(out, saved, x, gain, bias, 1e-2);
  kernels.dLayerNorm(dX, dOut, saved, x, gain);
  const slices = slicesOf(0, 8, 8, rows);
  const [dGain, dBias] = [kernels.tensor([dim]), kernels.tensor([dim])];
  kernels.dLayerNormWeights([dGain], [dBias], dOut, saved, x, slices);
  return read(kernels, [out, saved, dX, dGain, dBias]);
};

function read(kernels: Kernels, tensors: readonly Tensor[]): Float32Array[] {
  return tensors.map((tensor) => kernels.read(tensor));
}

/** By what runs in them. */
export const blockScenarios: Readonly<Record<string, Scenario>> = {
  "sums and products of elements": elements,
  "products of each sample's matrices": products,
  "layer normalisation": layerNorms,
};

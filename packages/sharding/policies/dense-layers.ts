// A multilayer perceptron with ReLU on the engine's kernels: the building block of all networks of
// placement policies.
//
// R = rows (tables, devices or plans), I/O = inputs/outputs of a layer.

import type { Kernels, Tensor } from "../../../internal.ts";
import type { ParameterShape, Parameters } from "./parameters.ts";

/** Name and widths of the layers; the first width is that of the input. */
export interface LayersSpec {
  readonly name: string;
  readonly widths: readonly number[];
  /** Whether ReLU follows the last layer, too. */
  readonly reluLast: boolean;
}

/**
 * Parameters: `name.0.weight` (O,I), `name.0.bias` (O), and so on, initialised uniformly in
 * ±1/sqrt(I).
 */
export function layerShapes({ name, widths }: LayersSpec): ParameterShape[] {
  return widths.slice(1).flatMap((outputs, layer) => {
    const inputs = widths[layer] ?? 0;
    const scale = 1 / Math.sqrt(inputs);
    return [
      { name: `${name}.${layer}.weight`, shape: [outputs, inputs], scale },
      { name: `${name}.${layer}.bias`, shape: [outputs], scale },
    ];
  });
}

/** Tensors of one layer for R rows. */
interface Layer {
  readonly weight: Tensor;
  readonly bias: Tensor;
  readonly dWeight: Tensor;
  readonly dBias: Tensor;
  /** (R,O): the output; `d`: its gradient, allocated by the first backward pass. */
  readonly out: Tensor;
  d: Tensor | undefined;
  readonly relu: boolean;
}

/** Layers with memory for R rows, which every pass overwrites. */
export class LayersPass {
  readonly #kernels: Kernels;
  readonly #rows: number;
  readonly #layers: readonly Layer[];
  #x: Tensor | undefined;

  constructor(kernels: Kernels, parameters: Parameters, spec: LayersSpec, rows: number) {
    const { name, widths, reluLast } = spec;
    this.#kernels = kernels;
    this.#rows = rows;
    this.#layers = widths.slice(1).map((outputs, layer): Layer => {
      const [weight, bias] = [`${name}.${layer}.weight`, `${name}.${layer}.bias`];
      return {
        weight: parameters.weight(weight),
        bias: parameters.weight(bias),
        dWeight: parameters.gradient(weight),
        dBias: parameters.gradient(bias),
        out: kernels.tensor([rows, outputs]),
        d: undefined,
        relu: reluLast || layer + 2 < widths.length,
      };
    });
  }

  /** Returns the output (R,O) for x (R,I), valid until the next pass. */
  forward(x: Tensor): Tensor {
    this.#x = x;
    let value = x;
    for (const { out, weight, bias, relu } of this.#layers) {
      this.#kernels.linear(out, value, weight, bias, relu);
      value = out;
    }
    return value;
  }

  /**
   * Adds the gradients of the last forward pass to the parameters'. Overwrites dOut (R,O); writes
   * the input's gradient to dX (R,I), if given.
   */
  backward(dOut: Tensor, dX?: Tensor): void {
    const kernels = this.#kernels;
    const slices = { first: 0, bounds: Int32Array.of(0, this.#rows) };
    let d = dOut;
    for (const [layer, own] of [...this.#layers.entries()].reverse()) {
      const { out, weight, dWeight, dBias, relu } = own;
      const below = this.#layers[layer - 1];
      const x = below?.out ?? this.#x;
      if (x === undefined) throw new RangeError("Expected a forward pass before a backward pass");
      if (relu) kernels.dRelu(d, out);
      const more = [kernels.tensor(weight.shape), kernels.tensor(dBias.shape)] as const;
      kernels.dLinearWeight([more[0]], [more[1]], d, x, slices);
      kernels.add(dWeight, dWeight, more[0]);
      kernels.add(dBias, dBias, more[1]);
      if (below !== undefined) below.d ??= kernels.tensor(below.out.shape);
      const dBelow = below === undefined ? dX : below.d;
      if (dBelow === undefined) return;
      kernels.dLinearInput(dBelow, d, weight);
      d = dBelow;
    }
  }
}

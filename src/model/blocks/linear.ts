// A linear layer over the last axis of its input, optionally followed by ReLU and dropout.
//
// B = samples, L = rows of a sample (1, or the product of all axes but the last), I = inputs,
// O = outputs.

import type { GraphBuilder, Memory, Pass, Value } from "../graph/graph.ts";
import { sizeOf } from "../graph/graph.ts";
import { glorot } from "../graph/parameters.ts";
import type { Name, Translation } from "../graph/translation.ts";
import { type DropoutSite, drop } from "./dropout.ts";

export interface LinearOptions {
  /** Prefix of the parameters `name.weight` (O,I) and `name.bias` (O). */
  readonly name: string;
  /** O, the columns of the output. */
  readonly outputs: number;
  /** @default true */
  readonly bias?: boolean;
  /** @default false */
  readonly relu?: boolean;
  /** Scale of the initial weights. @default that of Glorot and Bengio */
  readonly scale?: number;
  /** Probability that an output is dropped in training. @default 0 */
  readonly dropout?: number;
  /** Whether x is an input of the model: see `isInput` of `NodeSpec`. */
  readonly isInput?: boolean;
}

/** Computes x W^T + b from x (…, I). Returns (…, O). */
export function linear(graph: GraphBuilder, x: Value, options: LinearOptions): Value {
  const { name, outputs, bias: hasBias = true, dropout = 0, isInput = false } = options;
  const inputs = x.shape.at(-1) ?? 0;
  const { scale = glorot(inputs, outputs) } = options;
  const rows = sizeOf(x) / Math.max(1, inputs);
  const weight = { name: `${name}.weight`, shape: [outputs, inputs] };
  const bias = { name: `${name}.bias`, shape: [outputs] };
  const site = dropout > 0 ? { rate: dropout, site: graph.dropoutSite() } : undefined;
  return graph.add({
    inputs: [x],
    shape: [...x.shape.slice(0, -1), outputs],
    parameters: [{ ...weight, scale }, ...(hasBias ? [bias] : [])],
    isInput,
    keepsGradient: options.relu !== true && site === undefined,
    adds: true,
    hasRelu: options.relu === true && site === undefined,
    zeroes: true,
    products: rows * outputs * (inputs + (hasBias ? 1 : 0)),
    elements: rows * (inputs + outputs),
    translate: (to) => translateLinear(to, x.shape.length, options),
    start: (memory) => startLinear(memory, { ...options, inputs, rows, hasBias, site }),
  });
}

function translateLinear(to: Translation, axes: number, options: LinearOptions): Name {
  const { name, outputs, bias: hasBias = true, relu = false } = options;
  const weight = to.parameter(`${name}.weight`);
  const bias = hasBias ? to.parameter(`${name}.bias`) : undefined;
  let out: Name;
  if (axes === 1) {
    const zeros = () => to.numbers([outputs], new Array(outputs).fill(0));
    out = to.op("Gemm", [to.x(0), weight, bias ?? zeros()], { transB: 1 });
  } else {
    out = to.op("MatMul", [to.x(0), to.op("Transpose", [weight], { perm: [1, 0] })]);
    if (bias !== undefined) out = to.op("Add", [out, bias]);
  }
  return relu ? to.op("Relu", [out]) : out;
}

function startLinear(
  memory: Memory,
  own: {
    readonly name: string;
    readonly outputs: number;
    readonly inputs: number;
    readonly rows: number;
    readonly hasBias: boolean;
    readonly relu?: boolean;
    readonly site: DropoutSite | undefined;
  },
) {
  const { kernels, precision } = memory;
  const { name, outputs, inputs, rows, hasBias, relu = false, site } = own;
  const weight = memory.parameter(`${name}.weight`);
  const dWeight = memory.gradients(`${name}.weight`);
  // Kernels always take a bias: without one, they read zeros and write a gradient that no code
  // reads.
  const bias = hasBias ? memory.parameter(`${name}.bias`) : kernels.tensor([outputs]);
  const unread = () => dWeight.map(() => kernels.tensor([outputs]));
  const dBias = hasBias ? memory.gradients(`${name}.bias`) : unread();
  const shaped = (samples: number) => ({
    x: kernels.reshape(memory.x(0, samples), [samples * rows, inputs]),
    out: kernels.reshape(memory.out(samples), [samples * rows, outputs]),
  });
  return {
    forward(pass: Pass): void {
      const { x, out } = shaped(pass.samples);
      kernels.linear(out, x, weight, bias, relu, precision);
      drop(memory, site, pass, memory.out(pass.samples));
    },

    backward(pass: Pass): void {
      const { samples, slices } = pass;
      const { x, out } = shaped(samples);
      drop(memory, site, pass, memory.dOut(samples));
      const d = kernels.reshape(memory.dOut(samples), [samples * rows, outputs]);
      if (relu && !memory.isZeroed) kernels.dRelu(d, out);
      const bounds = rows === 1 ? slices.bounds : slices.bounds.map((sample) => rows * sample);
      kernels.dLinearWeight(dWeight, dBias, d, x, { ...slices, bounds }, precision);
      const dX = memory.dX(0, samples);
      if (dX === undefined) return;
      const flat = [samples * rows, inputs];
      const others = memory.others(0, samples).map((other) => kernels.reshape(other, flat));
      const above = memory.reluOf(0, samples);
      kernels.dLinearInput(kernels.reshape(dX, flat), d, weight, precision, others, above);
    },
  };
}

// Elementwise blocks: sum, difference, product, mean, scaling, ReLU, leaky ReLU and sigmoid.

import type { GraphBuilder, Memory, Pass, Value } from "../graph/graph.ts";
import { checkShapes, sizeOf } from "../graph/graph.ts";
import type { Translate } from "../graph/translation.ts";
import { type DropoutSite, drop } from "./dropout.ts";

/** Translation to the ONNX operator `type` with both inputs. */
function both(type: string): Translate {
  return (to) => to.op(type, [to.x(0), to.x(1)]);
}

/** a + b, elementwise. */
export function sum(graph: GraphBuilder, a: Value, b: Value): Value {
  checkShapes(`${a.shape}` === `${b.shape}`, "both terms of a sum have one shape", a, b);
  return graph.add({
    inputs: [a, b],
    shape: a.shape,
    keepsGradient: true,
    passes: [0, 1],
    elements: 3 * sizeOf(a),
    translate: both("Add"),
    start: startSum,
  });
}

function startSum(memory: Memory) {
  const { kernels } = memory;
  return {
    forward({ samples }: Pass): void {
      kernels.add(memory.out(samples), memory.x(0, samples), memory.x(1, samples));
    },

    backward({ samples }: Pass): void {
      for (const input of [0, 1]) {
        const dX = memory.dX(input, samples);
        if (dX !== undefined) kernels.copy(dX, memory.dOut(samples));
      }
    },
  };
}

/** (a + b) / 2, elementwise. */
export function mean(graph: GraphBuilder, a: Value, b: Value): Value {
  checkShapes(`${a.shape}` === `${b.shape}`, "both values of a mean have one shape", a, b);
  const translate: Translate = (to) => to.op("Div", [both("Add")(to), to.numbers([1], [2])]);
  return graph.add({
    inputs: [a, b],
    shape: a.shape,
    elements: 3 * sizeOf(a),
    translate,
    start: startMean,
  });
}

function startMean(memory: Memory) {
  const { kernels } = memory;
  return {
    forward({ samples }: Pass): void {
      const out = memory.out(samples);
      kernels.add(out, memory.x(0, samples), memory.x(1, samples));
      kernels.divide(out, 2);
    },

    backward({ samples }: Pass): void {
      for (const input of [0, 1]) {
        const dX = memory.dX(input, samples);
        if (dX === undefined) continue;
        kernels.copy(dX, memory.dOut(samples));
        kernels.divide(dX, 2);
      }
    },
  };
}

/** a - b, elementwise. */
export function sub(graph: GraphBuilder, a: Value, b: Value): Value {
  checkShapes(`${a.shape}` === `${b.shape}`, "both terms of a difference have one shape", a, b);
  const start = (memory: Memory) => startDifference(memory, a.shape);
  return graph.add({
    inputs: [a, b],
    shape: a.shape,
    elements: 3 * sizeOf(a),
    translate: both("Sub"),
    start,
  });
}

function startDifference(memory: Memory, shape: readonly number[]) {
  const { kernels, samplesMax } = memory;
  const minus = kernels.tensor([samplesMax, ...shape]);
  kernels.fill(minus, -1);
  return {
    forward({ samples }: Pass): void {
      const out = memory.out(samples);
      kernels.multiply(out, memory.x(1, samples), kernels.part(minus, 0, samples));
      kernels.add(out, memory.x(0, samples), out);
    },

    backward({ samples }: Pass): void {
      const [dA, dB] = [memory.dX(0, samples), memory.dX(1, samples)];
      const dOut = memory.dOut(samples);
      if (dA !== undefined) kernels.copy(dA, dOut);
      if (dB !== undefined) kernels.multiply(dB, dOut, kernels.part(minus, 0, samples));
    },
  };
}

/** a * b, elementwise. */
export function mul(graph: GraphBuilder, a: Value, b: Value): Value {
  checkShapes(`${a.shape}` === `${b.shape}`, "both factors of a product have one shape", a, b);
  const elements = 3 * sizeOf(a);
  return graph.add({
    inputs: [a, b],
    shape: a.shape,
    keepsGradient: true,
    elements,
    translate: both("Mul"),
    start: startProduct,
  });
}

function startProduct(memory: Memory) {
  const { kernels } = memory;
  return {
    forward({ samples }: Pass): void {
      kernels.multiply(memory.out(samples), memory.x(0, samples), memory.x(1, samples));
    },

    backward: ({ samples }: Pass) => backwardFactors(memory, samples),
  };
}

/** Backward of a product: the gradients of its factors, inputs 0 and 1. */
function backwardFactors(memory: Memory, samples: number): void {
  const { kernels } = memory;
  const [a, b, dOut] = [memory.x(0, samples), memory.x(1, samples), memory.dOut(samples)];
  const [dA, dB] = [memory.dX(0, samples), memory.dX(1, samples)];
  if (dA !== undefined && dB !== undefined) kernels.dMultiply(dA, dB, dOut, a, b);
  else if (dA !== undefined) kernels.multiply(dA, dOut, b);
  else if (dB !== undefined) kernels.multiply(dB, dOut, a);
}

/** a * b + c, elementwise. Equals `sum` of `product` and c, without a buffer for the product. */
export function mulAdd(graph: GraphBuilder, a: Value, b: Value, c: Value): Value {
  const isOneShape = `${a.shape}` === `${b.shape}` && `${a.shape}` === `${c.shape}`;
  checkShapes(isOneShape, "the factors and the term have one shape", a, b, c);
  return graph.add({
    inputs: [a, b, c],
    shape: a.shape,
    keepsGradient: true,
    passes: [2],
    elements: 4 * sizeOf(a),
    translate: (to) => to.op("Add", [both("Mul")(to), to.x(2)]),
    start: startProductPlus,
  });
}

function startProductPlus(memory: Memory) {
  const { kernels } = memory;
  return {
    forward({ samples }: Pass): void {
      const [a, b, c] = [memory.x(0, samples), memory.x(1, samples), memory.x(2, samples)];
      kernels.multiplyAdd(memory.out(samples), a, b, c);
    },

    backward({ samples }: Pass): void {
      backwardFactors(memory, samples);
      const dC = memory.dX(2, samples);
      if (dC !== undefined) kernels.copy(dC, memory.dOut(samples));
    },
  };
}

/** x * factor. */
export function scaled(graph: GraphBuilder, x: Value, factor: number): Value {
  const start = (memory: Memory) => startScaled(memory, factor);
  return graph.add({
    inputs: [x],
    shape: x.shape,
    elements: 2 * sizeOf(x),
    translate: (to) => to.op("Mul", [to.x(0), to.numbers([1], [factor])]),
    start,
  });
}

function startScaled(memory: Memory, factor: number) {
  const { kernels } = memory;
  return {
    forward({ samples }: Pass): void {
      kernels.scale(memory.out(samples), memory.x(0, samples), factor);
    },

    backward({ samples }: Pass): void {
      const dX = memory.dX(0, samples);
      if (dX !== undefined) kernels.scale(dX, memory.dOut(samples), factor);
    },
  };
}

/** Leaky ReLU: x, or x * slope where x is below 0 (Maas et al., 2013). */
export function leakyRelu(graph: GraphBuilder, x: Value, slope = 0.01): Value {
  const start = (memory: Memory) => startLeakyRelu(memory, slope);
  return graph.add({
    inputs: [x],
    shape: x.shape,
    elements: 2 * sizeOf(x),
    translate: (to) => to.op("LeakyRelu", [to.x(0)], { alpha: { float: slope } }),
    start,
  });
}

function startLeakyRelu(memory: Memory, slope: number) {
  const { kernels } = memory;
  return {
    forward({ samples }: Pass): void {
      kernels.leakyRelu(memory.out(samples), memory.x(0, samples), slope);
    },

    backward({ samples }: Pass): void {
      const dX = memory.dX(0, samples);
      if (dX === undefined) return;
      kernels.copy(dX, memory.dOut(samples));
      kernels.dLeakyRelu(dX, memory.out(samples), slope);
    },
  };
}

/** The logistic function 1 / (1 + exp(-x)), elementwise. */
export function sigmoid(graph: GraphBuilder, x: Value): Value {
  return graph.add({
    inputs: [x],
    shape: x.shape,
    elements: 2 * sizeOf(x),
    translate: (to) => to.op("Sigmoid", [to.x(0)]),
    start: startSigmoid,
  });
}

function startSigmoid(memory: Memory) {
  const { kernels } = memory;
  return {
    forward({ samples }: Pass): void {
      kernels.sigmoid(memory.out(samples), memory.x(0, samples));
    },

    backward({ samples }: Pass): void {
      const dX = memory.dX(0, samples);
      if (dX === undefined) return;
      kernels.copy(dX, memory.dOut(samples));
      kernels.dSigmoid(dX, memory.out(samples));
    },
  };
}

/** ReLU: max(x, 0), followed by dropout if `dropout` is above 0. */
export function relu(
  graph: GraphBuilder,
  x: Value,
  /** `dropout`: probability that an output is dropped in training. @default 0 */
  { dropout = 0 }: { readonly dropout?: number } = {},
): Value {
  const site = dropout > 0 ? { rate: dropout, site: graph.dropoutSite() } : undefined;
  const elements = 2 * sizeOf(x);
  const start = (memory: Memory) => startRelu(memory, site);
  return graph.add({
    inputs: [x],
    shape: x.shape,
    elements,
    translate: (to) => to.op("Relu", [to.x(0)]),
    start,
  });
}

function startRelu(memory: Memory, site: DropoutSite | undefined) {
  const { kernels } = memory;
  return {
    forward(pass: Pass): void {
      const out = memory.out(pass.samples);
      kernels.relu(out, memory.x(0, pass.samples));
      drop(memory, site, pass, out);
    },

    backward(pass: Pass): void {
      const dX = memory.dX(0, pass.samples);
      if (dX === undefined) return;
      kernels.copy(dX, memory.dOut(pass.samples));
      drop(memory, site, pass, dX);
      kernels.dRelu(dX, memory.out(pass.samples));
    },
  };
}

// Shape checks of the kernels of model blocks.

import assert from "node:assert/strict";
import type { BatchNormColumns, BlockKernels, Kernels, Tensor } from "../contract/kernels.ts";
import { type Slices, subtreesOf } from "../contract/slices.ts";
import { addends, columns, covers, holds, size } from "./shapes.ts";

/** The kernels of model blocks, with the shape of every argument asserted. */
export function checkBlocks(inner: Kernels): BlockKernels {
  return {
    ...checkElements(inner),
    pairs(out, a, b) {
      holds("out", out, pairElements(a, b));
      inner.pairs(out, a, b);
    },
    dPairsLeft(dA, dOut, b) {
      holds("dOut", dOut, pairElements(dA, b));
      inner.dPairsLeft(dA, dOut, b);
    },
    dPairsRight(dB, dOut, a) {
      holds("dOut", dOut, pairElements(a, dB));
      inner.dPairsRight(dB, dOut, a);
    },
    products(out, a, b, form, plus = []) {
      const [samples, rows, columns] = ranks("out", out, 3);
      const shared = a.shape.length === 2;
      const depth = form === "aTb" ? a.shape.at(-2)! : a.shape.at(-1)!;
      ranks("a", a, shared ? 2 : 3);
      holds("a", a, (shared ? 1 : samples!) * rows! * depth);
      holds("b", b, samples! * depth * columns!);
      addends(plus, out);
      inner.products(out, a, b, form, plus);
    },
    dShared(dA, dOut, b, slices) {
      const [samples, rows, columns] = ranks("dOut", dOut, 3);
      const [, depth] = ranks("b", b, 3);
      holds("b", b, samples! * depth! * columns!);
      covers(slices, samples!);
      eachSubtree("dA", dA, slices, rows! * depth!);
      inner.dShared(dA, dOut, b, slices);
    },
    rankProducts(out, y, x, w) {
      rankShape(out, y, x, w);
      inner.rankProducts(out, y, x, w);
    },
    dRankProducts(dX, dW, dOut, operands, slices, plus = []) {
      const { x, y, w } = operands;
      rankShape(dOut, y, x, w);
      alike(dX, x);
      covers(slices, x.shape[0]!);
      eachSubtree("dW", dW, slices, size(w));
      addends(plus, dX);
      inner.dRankProducts(dX, dW, dOut, operands, slices, plus);
    },
    pairSum(out, x) {
      holds("x", x, size(out) * pairSize(x));
      inner.pairSum(out, x);
    },
    dPairSum(dX, dOut, x) {
      alike(dX, x);
      holds("x", x, size(dOut) * pairSize(x));
      inner.dPairSum(dX, dOut, x);
    },
    layerNorm(out, saved, x, gain, bias, epsilon) {
      alike(out, x);
      alike(gain, bias);
      holds("saved", saved, (2 * size(x)) / size(gain));
      inner.layerNorm(out, saved, x, gain, bias, epsilon);
    },
    dLayerNorm(dX, dGain, dBias, dOut, operands, slices) {
      const { saved, x, gain } = operands;
      const dim = size(gain);
      alike(dOut, x, ...(dX === undefined ? [] : [dX]));
      holds("saved", saved, (2 * size(x)) / dim);
      covers(slices, size(x) / dim);
      eachSubtree("dGain", dGain, slices, dim);
      eachSubtree("dBias", dBias, slices, dim);
      inner.dLayerNorm(dX, dGain, dBias, dOut, operands, slices);
    },
    ...checkBatchNorm(inner),
  };
}

type ElementNames =
  | "add"
  | "addBeside"
  | "dMultiply"
  | "multiplyAdd"
  | "multiply"
  | "relu"
  | "scale"
  | "leakyRelu"
  | "dLeakyRelu"
  | "sigmoid"
  | "dSigmoid"
  | "jointLogit"
  | "dJointLogit"
  | "softmax"
  | "dSoftmax";

function checkElements(inner: Kernels): Pick<BlockKernels, ElementNames> {
  return {
    add(out, a, b) {
      alike(out, a, b);
      inner.add(out, a, b);
    },
    addBeside(out, values, other) {
      const rows = out.shape[0] ?? 0;
      const widths = values.map((value) => columns("a value", value));
      for (const [i, value] of values.entries())
        holds(`value ${i}`, value, rows * (widths[i] ?? 0));
      holds("out", out, rows * widths.reduce((sum, width) => sum + width, 0));
      alike(out, other);
      inner.addBeside(out, values, other);
    },
    multiply(out, a, b) {
      alike(out, a, b);
      inner.multiply(out, a, b);
    },
    dMultiply(dA, dB, dOut, a, b) {
      alike(dOut, dA, dB, a, b);
      inner.dMultiply(dA, dB, dOut, a, b);
    },
    multiplyAdd(out, a, b, c) {
      alike(out, a, b, c);
      inner.multiplyAdd(out, a, b, c);
    },
    relu(out, x) {
      alike(out, x);
      inner.relu(out, x);
    },
    scale(out, x, factor) {
      alike(out, x);
      inner.scale(out, x, factor);
    },
    leakyRelu(out, x, slope) {
      alike(out, x);
      inner.leakyRelu(out, x, slope);
    },
    dLeakyRelu(d, out, slope) {
      alike(out, d);
      inner.dLeakyRelu(d, out, slope);
    },
    jointLogit(out, a, b) {
      alike(out, a, b);
      inner.jointLogit(out, a, b);
    },
    dJointLogit(dA, dB, dOut, a, b) {
      alike(dOut, dA, dB, a, b);
      inner.dJointLogit(dA, dB, dOut, a, b);
    },
    softmax(out, x) {
      ranks("x", x, 2);
      alike(out, x);
      inner.softmax(out, x);
    },
    dSoftmax(dX, dOut, out) {
      ranks("out", out, 2);
      alike(out, dX, dOut);
      inner.dSoftmax(dX, dOut, out);
    },
    sigmoid(out, x) {
      alike(out, x);
      inner.sigmoid(out, x);
    },
    dSigmoid(d, out) {
      alike(out, d);
      inner.dSigmoid(d, out);
    },
  };
}

type BatchNormNames =
  | "batchMoments"
  | "wholeBatchStatistics"
  | "batchStatistics"
  | "divide"
  | "batchNorm"
  | "dBatchNormWeights"
  | "dBatchNorm";

function checkBatchNorm(inner: Kernels): Pick<BlockKernels, BatchNormNames> {
  return {
    batchMoments(sums, x, shift, slices) {
      covers(slices, size(x) / size(shift));
      eachSubtree("sums", sums, slices, 2 * size(shift));
      inner.batchMoments(sums, x, shift, slices);
    },
    wholeBatchStatistics(columns, running, sums, numbers) {
      alike(running.mean, running.variance, columns.mean, columns.unit);
      holds("sums", sums, 2 * size(running.mean));
      inner.wholeBatchStatistics(columns, running, sums, numbers);
    },
    batchStatistics(columns, mean, variance, epsilon) {
      alike(mean, variance, columns.mean, columns.unit);
      inner.batchStatistics(columns, mean, variance, epsilon);
    },
    divide: (t, divisor) => inner.divide(t, divisor),
    batchNorm(out, x, columns, relu) {
      alike(out, x);
      columnsOf(columns, x);
      inner.batchNorm(out, x, columns, relu);
    },
    dBatchNormWeights(dGain, dBias, dOut, x, columns, slices) {
      const width = columnsOf(columns, x);
      alike(dOut, x);
      covers(slices, size(x) / width);
      eachSubtree("dGain", dGain, slices, width);
      eachSubtree("dBias", dBias, slices, width);
      inner.dBatchNormWeights(dGain, dBias, dOut, x, columns, slices);
    },
    dBatchNorm(dX, dOut, x, columns, dMean, dSlope) {
      const width = columnsOf(columns, x);
      alike(dX, dOut, x);
      holds("dMean", dMean, width);
      holds("dSlope", dSlope, width);
      inner.dBatchNorm(dX, dOut, x, columns, dMean, dSlope);
    },
  };
}

/** Asserts whole rows of x, and one number per column. Returns the number of columns. */
function columnsOf({ mean, unit, gain, bias }: BatchNormColumns, x: Tensor): number {
  const width = columns("x", x);
  for (const [name, t] of Object.entries({ mean, unit, gain, bias })) {
    if (width > 0) holds(name, t, width);
  }
  return size(gain);
}

/** Number of elements of all pairs of vectors of a (B,M,D) and b (B,N,D): B*M*N*D. */
function pairElements(a: Tensor, b: Tensor): number {
  const [samples, , dim] = ranks("a", a, 3);
  const [others, count] = ranks("b", b, 3);
  assert(
    samples === others && dim === b.shape[2],
    "Expected vectors of the same samples and width",
  );
  return size(a) * count!;
}

/** Asserts the shapes of x (B,N,D), y (B,K,D), w (K,N) and out (B,N,K). */
function rankShape(out: Tensor, y: Tensor, x: Tensor, w: Tensor): void {
  const [samples, vectors, dim] = ranks("x", x, 3);
  const [, rank] = ranks("y", y, 3);
  holds("y", y, samples! * rank! * dim!);
  holds("w", w, rank! * vectors!);
  holds("out", out, samples! * vectors! * rank!);
}

/** Number of elements of a sample's vectors. */
function pairSize(x: Tensor): number {
  const [, count, dim] = ranks("x", x, 3);
  return count! * dim!;
}

/** Asserts that tensors have as many elements as `out`. */
function alike(out: Tensor, ...others: readonly Tensor[]): void {
  for (const [i, other] of others.entries()) holds(`operand ${i}`, other, size(out));
}

/** The extents of a tensor. Asserts that it has `count` dimensions. */
function ranks(name: string, t: Tensor, count: number): readonly number[] {
  if (t.shape.length === count) return t.shape;
  assert.fail(`Expected ${name} to have ${count} dimensions, got (${t.shape.join(",")})`);
}

/** Asserts that `parts` has one tensor of `count` elements for each finished subtree. */
function eachSubtree(name: string, parts: readonly Tensor[], slices: Slices, count: number): void {
  const trees = subtreesOf(slices.first, slices.bounds.length - 1).length;
  assert.equal(parts.length, trees, `Expected ${name} for ${trees} subtrees`);
  for (const part of parts) holds(name, part, count);
}

// Calls the addon's kernels of model blocks.

import type { Addon } from "../../ports/addon.ts";
import type { BatchNormColumns, BlockKernels, ProductForm } from "../contract/kernels.ts";
import { batchStatistics, divide, wholeBatchStatistics } from "../reference/batch-statistics.ts";
import { dJointLogit, jointLogit } from "../reference/exponentials.ts";
import { valuesOf as data } from "../reference/memory.ts";

/** The order of `ProductForm` in native/kernels.h. */
const forms: readonly ProductForm[] = ["ab", "abT", "aTb"];

/** The arrays of batch normalisation, in the order of native/bindings/blocks.h. */
function listColumns({ mean, unit, gain, bias }: BatchNormColumns) {
  return [data(mean), data(unit), data(gain), data(bias)];
}

/** The kernels of model blocks, from the addon. */
export function blocks(addon: Addon): BlockKernels {
  return {
    add: (out, a, b) => void addon.add!(data(out), data(a), data(b)),
    addBeside(out, values, other) {
      const rows = Math.max(1, out.shape[0] ?? 0);
      const widths = Int32Array.from(values, (value) => data(value).length / rows);
      addon.addBeside!(data(out), values.map(data), widths, data(other));
    },
    multiply: (out, a, b) => void addon.multiply!(data(out), data(a), data(b)),
    dMultiply: (dA, dB, dOut, a, b) =>
      void addon.dMultiply!(data(dA), data(dB), data(dOut), data(a), data(b)),
    multiplyAdd: (out, a, b, c) => void addon.multiplyAdd!(data(out), data(a), data(b), data(c)),
    relu: (out, x) => void addon.relu!(data(out), data(x)),
    scale: (out, x, factor) => void addon.scale!(data(out), data(x), factor),
    leakyRelu: (out, x, slope) => void addon.leakyRelu!(data(out), data(x), slope),
    dLeakyRelu: (d, out, slope) => void addon.dLeakyRelu!(data(d), data(out), slope),
    pairs: (out, a, b) =>
      void addon.pairs!(data(out), data(a), data(b), a.shape[0], a.shape[1], b.shape[1]),
    dPairsLeft: (dA, dOut, b) =>
      void addon.dPairsLeft!(data(dA), data(dOut), data(b), b.shape[0], dA.shape[1], b.shape[1]),
    dPairsRight: (dB, dOut, a) =>
      void addon.dPairsRight!(data(dB), data(dOut), data(a), a.shape[0], a.shape[1], dB.shape[1]),
    sigmoid: (out, x) => void addon.sigmoid!(data(out), data(x)),
    dSigmoid: (d, out) => void addon.dSigmoid!(data(d), data(out)),
    jointLogit,
    dJointLogit,
    softmax: (out, x) => void addon.softmax!(data(out), data(x), x.shape[1]),
    dSoftmax: (dX, dOut, out) =>
      void addon.dSoftmax!(data(dX), data(dOut), data(out), out.shape[1]),
    wholeBatchStatistics,
    batchStatistics,
    divide,
    products(out, a, b, form, plus = []) {
      const depth = form === "aTb" ? a.shape.at(-2) : a.shape.at(-1);
      const operands = [data(out), data(a), data(b), ...out.shape, depth];
      const isShared = a.shape.length === 2;
      addon.products!(...operands, isShared, forms.indexOf(form), plus.map(data));
    },
    dShared(dA, dOut, b, { first, bounds }) {
      const [, rows, columns] = dOut.shape;
      addon.dShared!(dA.map(data), data(dOut), data(b), rows, columns, b.shape[1], first, bounds);
    },
    rankProducts: (out, y, x, w) =>
      void addon.rankProducts!(data(out), data(y), data(x), data(w), ...x.shape, y.shape[1]),
    dRankProducts(dX, dW, dOut, { x, y, w }, { first, bounds }, plus = []) {
      const operands = [data(dOut), data(x), data(y), data(w), ...x.shape, y.shape[1]];
      addon.dRankProducts!(data(dX), dW.map(data), ...operands, first, bounds, plus.map(data));
    },
    pairSum: (out, x) => void addon.pairSum!(data(out), data(x), x.shape[1], x.shape[2]),
    dPairSum: (dX, dOut, x) =>
      void addon.dPairSum!(data(dX), data(dOut), data(x), x.shape[1], x.shape[2]),
    layerNorm(out, saved, x, gain, bias, epsilon) {
      const weights = [data(gain), data(bias)];
      addon.layerNorm!(data(out), data(saved), data(x), ...weights, epsilon);
    },
    dLayerNorm(dX, dGain, dBias, dOut, { saved, x, gain }, { first, bounds }) {
      const outputs = [dX && data(dX), dGain.map(data), dBias.map(data)];
      const operands = [data(dOut), data(saved), data(x), data(gain)];
      addon.dLayerNorm!(...outputs, ...operands, first, bounds);
    },
    batchMoments: (sums, x, shift, { first, bounds }) =>
      void addon.batchMoments!(sums.map(data), data(x), data(shift), first, bounds),
    batchNorm: (out, x, columns, relu) =>
      void addon.batchNorm!(data(out), data(x), ...listColumns(columns), relu),
    dBatchNormWeights(dGain, dBias, dOut, x, columns, { first, bounds }) {
      const outputs = [dGain.map(data), dBias.map(data)];
      const operands = [data(dOut), data(x), ...listColumns(columns)];
      addon.dBatchNormWeights!(...outputs, ...operands, first, bounds);
    },
    dBatchNorm(dX, dOut, x, columns, dMean, dSlope) {
      const operands = [data(dX), data(dOut), data(x), ...listColumns(columns)];
      addon.dBatchNorm!(...operands, data(dMean), data(dSlope));
    },
  };
}

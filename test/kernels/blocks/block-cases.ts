// Cases of the block kernels: small ones computed by hand, the bitwise laws, and random input of
// odd shapes.

import type { Kernels, ProductForm, Tensor } from "../../../src/kernels/contract/kernels.ts";
import { type Slices, slicesOf, subtreesOf } from "../../../src/kernels/contract/slices.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import { type Cases, list, near, of, random } from "../cases.ts";
import type { Scenario } from "../scenarios.ts";
import { elementCases, elements } from "./element-cases.ts";

const blocksByHand: Cases = {
  "matrices of samples are multiplied as they lie": (t, k) => {
    const a = of(k, [1, 2, 3], [1, 2, 3, 4, 5, 6]);
    const out = k.tensor([1, 2, 2]);
    k.products(out, a, of(k, [1, 3, 2], [1, 0, 0, 1, 1, 1]), "ab");
    t.deepEqual(list(k, out), [4, 5, 10, 11]);
    k.products(out, a, of(k, [1, 2, 3], [1, 0, 1, 0, 1, 1]), "abT");
    t.deepEqual(list(k, out), [4, 5, 10, 11]);
    const wide = k.tensor([1, 3, 1]);
    k.products(wide, a, of(k, [1, 2, 1], [1, 10]), "aTb");
    t.deepEqual(list(k, wide), [41, 52, 63]);
    const shared = k.tensor([2, 2, 1]);
    k.products(shared, of(k, [2, 1], [2, 3]), of(k, [2, 1, 1], [5, 7]), "ab");
    t.deepEqual(list(k, shared), [10, 15, 14, 21]);
  },

  "what is added to a product is added behind its last term, in order": (t, k) => {
    const large = 2 ** 24;
    const plus = [of(k, [1, 1, 1], [large]), of(k, [1, 1, 1], [-large])];
    const out = k.tensor([1, 1, 1]);
    // 1 + 2 ** 24 is no float32: the 1 is lost only if it is added in this order.
    k.products(out, of(k, [1, 1], [1]), of(k, [1, 1, 1], [1]), "ab", plus);
    t.deepEqual(list(k, out), [0]);
    const [d, w] = [of(k, [1, 2], [0.5, 1]), of(k, [2, 1], [1, 0.5])];
    k.dLinearInput(out, d, w, undefined, plus);
    t.deepEqual(list(k, out), [0]);
    k.dLinearInput(out, d, w, "bfloat16", [...plus].reverse());
    t.deepEqual(list(k, out), [1]);
  },

  "vectors are multiplied with sums of themselves": (t, k) => {
    const [x, w] = [of(k, [1, 2, 2], [1, 2, 3, 4]), of(k, [1, 2], [10, 1])];
    const [out, y] = [k.tensor([1, 2, 1]), k.tensor([1, 1, 2])];
    k.rankProducts(out, y, x, w);
    t.deepEqual(list(k, y), [13, 24]);
    t.deepEqual(list(k, out), [13 + 48, 39 + 96]);
    const [dX, dW] = [k.tensor([1, 2, 2]), k.tensor([1, 2])];
    const [slices, plus] = [{ first: 0, bounds: Int32Array.of(0, 1) }, [of(k, [4], [1, 0, 0, 9])]];
    k.dRankProducts(dX, [dW], of(k, [1, 2, 1], [1, 2]), { x, y, w }, slices, plus);
    // dY is (7, 10).
    t.deepEqual(list(k, dX), [70 + 13 + 1, 100 + 24, 7 + 26, 10 + 48 + 9]);
    t.deepEqual(list(k, dW), [7 + 20, 21 + 40]);
  },

  "the gradient of a shared matrix is summed slice by slice": (t, k) => {
    const d = of(k, [3, 1, 2], [1, 2, 3, 4, 5, 6]);
    const b = of(k, [3, 1, 2], [1, 1, 10, 10, 100, 1000]);
    const parts = [k.tensor([1, 1]), k.tensor([1, 1])];
    // Slices 1 | 2,3 of a batch.
    k.dShared(parts, d, b, { first: 1, bounds: Int32Array.of(0, 1, 2, 3) });
    t.deepEqual(
      parts.map((part) => list(k, part)),
      [[3], [70 + 6500]],
    );
  },

  "the sum of all pairs is that of their dot products": (t, k) => {
    const x = of(k, [2, 3, 2], [1, 2, 3, 4, 5, 6, 1, 0, 0, 1, 0, 0]);
    const out = k.tensor([2]);
    k.pairSum(out, x);
    t.deepEqual(list(k, out), [11 + 17 + 39, 0]);
    const dX = k.tensor([2, 3, 2]);
    k.dPairSum(dX, of(k, [2], [1, 10]), x);
    t.deepEqual(list(k, dX), [8, 10, 6, 8, 4, 6, 0, 10, 10, 0, 10, 10]);
  },

  "a batch has the mean and the deviation of its samples, wherever sums begin": (t, k) => {
    const x = of(k, [4, 1], [1, 2, 3, 6]);
    const slices = { first: 0, bounds: Int32Array.of(0, 1, 4) };
    const columns = { mean: k.tensor([1]), unit: k.tensor([1]) };
    for (const shift of [0, 10]) {
      const sums = k.tensor([2, 1]);
      const running = { mean: of(k, [1], [shift]), variance: of(k, [1], [1]) };
      k.batchMoments([sums], x, running.mean, slices);
      const numbers = { count: 4, momentum: 0.5, epsilon: 0 };
      k.wholeBatchStatistics(columns, running, sums, numbers);
      near(t, list(k, columns.mean), [3]);
      near(t, list(k, columns.unit), [1 / Math.sqrt(3.5)]);
      near(t, list(k, running.mean), [(shift + 3) / 2]);
      near(t, list(k, running.variance), [(1 + 14 / 3) / 2]);
    }
    const out = k.tensor([4, 1]);
    const [gain, bias] = [of(k, [1], [2]), of(k, [1], [-1])];
    k.batchNorm(out, x, { ...columns, gain, bias }, true);
    near(t, list(k, out), [0, 0, 0, 6 / Math.sqrt(3.5) - 1]);
    k.batchStatistics(columns, of(k, [1], [5]), of(k, [1], [3]), 1);
    near(t, [...list(k, columns.mean), ...list(k, columns.unit)], [5, 0.5]);
    k.divide(out, 2);
    near(t, list(k, out).slice(3), [3 / Math.sqrt(3.5) - 0.5]);
  },

  "a normalised row has mean 0 and variance 1, then gain and bias": (t, k) => {
    const x = of(k, [2, 4], [1, 2, 3, 4, 5, 5, 5, 5]);
    const [out, saved] = [k.tensor([2, 4]), k.tensor([2, 2])];
    k.layerNorm(out, saved, x, of(k, [4], [1, 1, 2, 1]), of(k, [4], [0, 0, 0, 1]), 0);
    const unit = 1 / Math.sqrt(1.25);
    near(t, list(k, out).slice(0, 4), [-1.5 * unit, -0.5 * unit, unit, 1 + 1.5 * unit]);
    near(t, list(k, saved).slice(0, 2), [2.5, unit]);
    // A row of equal numbers has no deviation: epsilon avoids the division by zero.
    k.layerNorm(out, saved, x, of(k, [4], [1, 1, 1, 1]), k.tensor([4]), 1e-5);
    t.deepEqual(list(k, out).slice(4), [0, 0, 0, 0]);
  },
};

/** Boundaries of eight slices of nine samples. */
const bounds = [0, 1, 2, 3, 4, 5, 6, 7, 9];

const blocksByBit: Cases = {
  "the gradients of shared matrices and of normalised rows do not depend on who has which slices": (
    t,
    k,
  ) => {
    const stream = new RandomStream(31, 1);
    const d = random(k, stream, [9, 5, 7]);
    const b = random(k, stream, [9, 6, 7]);
    const [gain, bias] = [random(k, stream, [7]), random(k, stream, [7])];
    const gradients = (first: number, count: number): Tensor[][] => {
      const from = bounds[first] ?? 0;
      const own = bounds.slice(first, first + count + 1).map((bound) => bound - from);
      const slices: Slices = { first, bounds: Int32Array.from(own) };
      const trees = subtreesOf(first, count);
      const samples = own.at(-1) ?? 0;
      const [dOut, x] = [k.part(d, from, samples), k.part(b, from, samples)];
      const tensors = (shape: number[]) => trees.map(() => k.tensor(shape));
      const [dA, dGain, dBias] = [tensors([5, 6]), tensors([7]), tensors([7])];
      k.dShared(dA, dOut, x, slices);
      const rows = k.reshape(x, [samples * 6, 7]);
      const [out, saved] = [k.tensor([samples * 6, 7]), k.tensor([samples * 6, 2])];
      k.layerNorm(out, saved, rows, gain, bias, 1e-5);
      const bySix = { first, bounds: slices.bounds.map((bound) => 6 * bound) };
      k.dLayerNorm(undefined, dGain, dBias, rows, { saved, x: rows, gain }, bySix);
      return [dA, dGain, dBias];
    };
    const whole = gradients(0, 8);
    const split = [gradients(0, 3), gradients(3, 2), gradients(5, 3)];
    const trees = [subtreesOf(0, 3), subtreesOf(3, 2), subtreesOf(5, 3)].flat();
    for (const [i, [expected]] of whole.entries()) {
      if (expected === undefined) return t.fail();
      const folded = k.tensor(expected.shape);
      const parts = split.flatMap((own) => own[i] ?? []);
      k.foldSubtrees(folded, parts, trees, 8);
      t.deepEqual(list(k, folded), list(k, expected), `gradient ${i}`);
    }
  },

  "a product does not depend on the samples beside it": (t, k) => {
    for (const form of ["ab", "abT", "aTb"] as const) {
      const [a, b] = operands(k, new RandomStream(7, 1), form, [4, 11, 19, 5], false);
      const all = k.tensor([4, 11, 19]);
      k.products(all, a, b, form);
      const one = k.tensor([1, 11, 19]);
      k.products(one, k.part(a, 2, 1), k.part(b, 2, 1), form);
      t.deepEqual(list(k, one), list(k, k.part(all, 2, 1)), form);
    }
  },
};

/** Random operands of a product of (B,M,N,K). */
export function operands(
  k: Kernels,
  stream: RandomStream,
  form: ProductForm,
  [samples, rows, columns, depth]: readonly [number, number, number, number],
  isShared: boolean,
): [Tensor, Tensor] {
  const a = form === "aTb" ? [depth, rows] : [rows, depth];
  const b = form === "abT" ? [columns, depth] : [depth, columns];
  return [random(k, stream, isShared ? a : [samples, ...a]), random(k, stream, [samples, ...b])];
}

/** Cases of the block kernels by title. */
export const blockCases: Cases = { ...elementCases, ...blocksByHand, ...blocksByBit };

/** Outputs large enough that the kernels write them past the caches. */
const large: Scenario = (kernels, stream) => {
  const [rows, dim, rank] = [2 ** 12 + 1 + stream.below(9), 64 + stream.below(2), 3];
  const shape = [rows, dim];
  const [a, b] = [random(kernels, stream, shape), random(kernels, stream, shape)];
  const column = () => random(kernels, stream, [dim]);
  const [sum, product, beside, norm, dX] = [1, 2, 3, 4, 5].map(() => kernels.tensor(shape));
  if (sum === undefined || product === undefined || beside === undefined) return [];
  if (norm === undefined || dX === undefined) return [];
  kernels.dMultiply(sum, product, a, b, a);
  kernels.multiplyAdd(product, a, b, sum);
  kernels.add(sum, a, b);
  const halves = [dim - 20, 20].map((width) => random(kernels, stream, [rows, width]));
  kernels.addBeside(beside, halves, a);
  const [saved, gain] = [kernels.tensor([rows, 2]), column()];
  kernels.layerNorm(norm, saved, a, gain, column(), 1e-2);
  const weights = [kernels.tensor([dim])];
  kernels.dLayerNorm(dX, weights, weights, b, { saved, x: a, gain }, slicesOf(0, 8, 8, rows));
  const made = kernels.tensor([rows, rank, dim]);
  const x = kernels.reshape(a, [rows, 1, dim]);
  kernels.products(made, random(kernels, stream, [rank, 1]), x, "ab");
  const samples = 256 + stream.below(3);
  const [w, vectors] = [
    random(kernels, stream, [32, 33]),
    random(kernels, stream, [samples, 33, 16]),
  ];
  const [dots, sums] = [kernels.tensor([samples, 33, 32]), kernels.tensor([samples, 32, 16])];
  kernels.rankProducts(dots, sums, vectors, w);
  const copied = kernels.tensor([rows, dim + 3]);
  kernels.copyColumns(copied, 2, a, 0, dim);
  const table = kernels.rows({ rows: 9, dim, pooling: "sum", rowBlocks: 1, stateWidth: 0 });
  kernels.writeRows(table, 0, kernels.read(random(kernels, stream, [9, dim])));
  const offsets = Int32Array.from({ length: rows + 1 }, (_, sample) => sample);
  const ids = Int32Array.from({ length: rows }, () => stream.below(9));
  const pooled = kernels.tensor(shape);
  kernels.pool(pooled, [table], { tables: 1, samples: rows, offsets, ids }, 0, rows);
  return read(kernels, [sum, product, beside, norm, saved, dX, made, dots, sums, copied, pooled]);
};

const ranks: Scenario = (kernels, stream) => {
  const shape = (most: number) => 1 + stream.below(most);
  const [samples, vectors, dim, rank] = [2 + shape(9), shape(34), shape(70), shape(34)];
  const slices = slicesOf(1, 3, 8, samples);
  const own = slices.bounds.at(-1) ?? 0;
  const [x, w] = [
    random(kernels, stream, [own, vectors, dim]),
    random(kernels, stream, [rank, vectors]),
  ];
  const [y, out] = [kernels.tensor([own, rank, dim]), kernels.tensor([own, vectors, rank])];
  kernels.rankProducts(out, y, x, w);
  const dX = kernels.tensor(x.shape);
  const dW = subtreesOf(1, 3).map(() => kernels.tensor(w.shape));
  const dOut = random(kernels, stream, out.shape);
  // With three factors, the error of a portable sum grows with its terms.
  kernels.scale(dOut, dOut, 2 ** -4);
  const plus = Array.from({ length: stream.below(3) }, () => random(kernels, stream, x.shape));
  kernels.dRankProducts(dX, dW, dOut, { x, y, w }, slices, plus);
  return read(kernels, [y, out, dX, ...dW]);
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
      const count = stream.below(3);
      const plus = Array.from({ length: count }, () => random(kernels, stream, out.shape));
      kernels.products(out, a, b, form, plus);
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

const pairs: Scenario = (kernels, stream) => {
  const [m, n, dim] = [1 + stream.below(9), 1 + stream.below(9), 1 + stream.below(40)];
  const [a, b] = [random(kernels, stream, [3, m, dim]), random(kernels, stream, [3, n, dim])];
  const [dA, dB] = [kernels.tensor([3, m, dim]), kernels.tensor([3, n, dim])];
  const out = kernels.tensor([3, m, n, dim]);
  kernels.pairs(out, a, b);
  const dOut = random(kernels, stream, [3, m, n, dim]);
  kernels.dPairsLeft(dA, dOut, b);
  kernels.dPairsRight(dB, dOut, a);
  return read(kernels, [out, dA, dB]);
};

const pairSums: Scenario = (kernels, stream) => {
  const [count, dim] = [1 + stream.below(12), 1 + stream.below(80)];
  const x = random(kernels, stream, [5, count, dim]);
  const [out, dX] = [kernels.tensor([5]), kernels.tensor([5, count, dim])];
  kernels.pairSum(out, x);
  kernels.dPairSum(dX, random(kernels, stream, [5]), x);
  return read(kernels, [out, dX]);
};

const batchNorms: Scenario = (kernels, stream) => {
  const [rows, width] = [8 + stream.below(20), 1 + stream.below(70)];
  const [x, dOut] = [
    random(kernels, stream, [rows, width]),
    random(kernels, stream, [rows, width]),
  ];
  const column = () => random(kernels, stream, [width]);
  const columns = { mean: column(), unit: column(), gain: column(), bias: column() };
  const [out, dX] = [kernels.tensor([rows, width]), kernels.tensor([rows, width])];
  kernels.batchNorm(out, x, columns, true);
  kernels.dBatchNorm(dX, dOut, x, columns, column(), column());
  const slices = slicesOf(1, 3, 4, rows);
  const own = slices.bounds.at(-1) ?? 0;
  const [someX, someD] = [kernels.part(x, 0, own), kernels.part(dOut, 0, own)];
  const trees = subtreesOf(1, 3);
  const [sums, dGain, dBias] = [2, 1, 1].map((n) => trees.map(() => kernels.tensor([n, width])));
  if (sums === undefined || dGain === undefined || dBias === undefined) return [];
  kernels.batchMoments(sums, someX, column(), slices);
  kernels.dBatchNormWeights(dGain, dBias, someD, someX, columns, slices);
  return read(kernels, [out, dX, ...sums, ...dGain, ...dBias]);
};

const layerNorms: Scenario = (kernels, stream) => {
  const [rows, dim] = [8 + stream.below(9), 1 + stream.below(100)];
  const slices = slicesOf(1, 3, 8, rows);
  const own = slices.bounds.at(-1) ?? 0;
  const [x, dOut] = [random(kernels, stream, [own, dim]), random(kernels, stream, [own, dim])];
  const [gain, bias] = [random(kernels, stream, [dim]), random(kernels, stream, [dim])];
  const [out, dX] = [kernels.tensor([own, dim]), kernels.tensor([own, dim])];
  const saved = kernels.tensor([own, 2]);
  kernels.layerNorm(out, saved, x, gain, bias, 1e-2);
  const columns = () => subtreesOf(1, 3).map(() => kernels.tensor([dim]));
  const [dGain, dBias, alone, beside] = [columns(), columns(), columns(), columns()];
  kernels.dLayerNorm(dX, dGain, dBias, dOut, { saved, x, gain }, slices);
  kernels.dLayerNorm(undefined, alone, beside, dOut, { saved, x, gain }, slices);
  return read(kernels, [out, saved, dX, ...dGain, ...dBias, ...alone, ...beside]);
};

function read(kernels: Kernels, tensors: readonly Tensor[]): Float32Array[] {
  return tensors.map((tensor) => kernels.read(tensor));
}

/** Random scenarios, by the kernels that they run. */
export const blockScenarios: Readonly<Record<string, Scenario>> = {
  "sums and products of elements": elements,
  "products of each sample's matrices": products,
  "products of vectors and sums of them": ranks,
  "large outputs": large,
  "products of all pairs of vectors": pairs,
  "sums of all dot products": pairSums,
  "layer normalisation": layerNorms,
  "batch normalisation": batchNorms,
};

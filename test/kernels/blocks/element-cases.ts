// Cases of the elementwise kernels: small ones computed by hand, and random input.

import type { Tensor } from "../../../src/kernels/contract/kernels.ts";
import { type Cases, list, near, of, random } from "../cases.ts";
import type { Scenario } from "../scenarios.ts";

/** Cases of the elementwise kernels by title. */
export const elementCases: Cases = {
  "sums and products of elements may overwrite an operand": (t, k) => {
    const [a, b] = [of(k, [2, 2], [1, -2, 3, 0]), of(k, [2, 2], [5, 7, -3, 2])];
    const out = k.tensor([2, 2]);
    k.add(out, a, b);
    t.deepEqual(list(k, out), [6, 5, 0, 2]);
    k.multiply(a, a, b);
    t.deepEqual(list(k, a), [5, -14, -9, 0]);
    k.add(b, a, b);
    t.deepEqual(list(k, b), [10, -7, -12, 2]);
  },

  "a product is rounded before something is added to it": (t, k) => {
    const [a, c] = [of(k, [1], [1 + 2 ** -12]), of(k, [1], [-1 - 2 ** -11])];
    const [out, dB] = [k.tensor([1]), k.tensor([1])];
    k.multiplyAdd(out, a, a, c);
    t.deepEqual(list(k, out), [0]);
    k.dMultiply(out, dB, of(k, [1], [2]), of(k, [1], [3]), of(k, [1], [5]));
    t.deepEqual([list(k, out), list(k, dB)], [[10], [6]]);
  },

  "values side by side are added to another": (t, k) => {
    const out = k.tensor([2, 3]);
    const values = [of(k, [2, 1], [1, 2]), of(k, [2, 2], [3, 4, 5, 6])];
    k.addBeside(out, values, of(k, [2, 3], [10, 20, 30, 40, 50, 60]));
    t.deepEqual(list(k, out), [11, 23, 34, 42, 55, 66]);
  },

  "a leaky ReLU and a multiple may overwrite their operand": (t, k) => {
    const x = of(k, [4], [2, -4, 0, -0.5]);
    k.leakyRelu(x, x, 0.25);
    t.deepEqual(list(k, x), [2, -1, 0, -0.125]);
    const d = of(k, [4], [8, 8, 8, -8]);
    k.dLeakyRelu(d, x, 0.25);
    t.deepEqual(list(k, d), [8, 2, 8, -2]);
    k.scale(d, d, -0.5);
    t.deepEqual(list(k, d), [-4, -1, -4, 1]);
  },

  "a softmax of large numbers is finite, and keeps their differences": (t, k) => {
    const out = k.tensor([2, 2]);
    k.softmax(out, of(k, [2, 2], [1000, 1001, -9, -9]));
    const share = 1 / (1 + Math.E);
    near(t, list(k, out), [share, 1 - share, 0.5, 0.5]);
    const dX = k.tensor([2, 2]);
    k.dSoftmax(dX, of(k, [2, 2], [4, 0, 1, 1]), out);
    const slope = 4 * share * (1 - share);
    near(t, list(k, dX), [slope, -slope, 0, 0]);
  },

  "a logistic function far from zero is 0 or 1, and its slope is 0": (t, k) => {
    const out = k.tensor([4]);
    k.sigmoid(out, of(k, [4], [0, 200, -200, Math.log(3)]));
    near(t, list(k, out), [0.5, 1, 0, 0.75]);
    const d = of(k, [4], [4, 1, 1, 16]);
    k.dSigmoid(d, out);
    near(t, list(k, d), [1, 0, 0, 3]);
  },
};

export const elements: Scenario = (kernels, stream) => {
  const shape = [7, 13];
  const [a, b] = [random(kernels, stream, shape), random(kernels, stream, shape)];
  const first = 1 + stream.below(12);
  const beside = [first, 13 - first].map((width) => random(kernels, stream, [7, width]));
  return [
    (out: Tensor) => kernels.add(out, a, b),
    (out: Tensor) => kernels.multiply(out, a, b),
    (out: Tensor) => kernels.multiplyAdd(out, a, b, a),
    (out: Tensor) => kernels.dMultiply(out, kernels.tensor(shape), a, a, b),
    (out: Tensor) => kernels.dMultiply(kernels.tensor(shape), out, b, a, b),
    (out: Tensor) => kernels.addBeside(out, beside, a),
    (out: Tensor) => kernels.relu(out, a),
    (out: Tensor) => kernels.softmax(out, a),
    (out: Tensor) => kernels.dSoftmax(out, b, a),
  ].map((run) => {
    const out = kernels.tensor(shape);
    run(out);
    return kernels.read(out);
  });
};

// Layers with bfloat16 operands, computed by hand: cases of the kernels' suite.

import { slicesOf } from "../../src/kernels/contract/slices.ts";
import { type Cases, list, of } from "./cases.ts";

/** Cases whose values show where and in which order rounding happens. */
export const bfloat16ByHand: Cases = {
  "a layer in bfloat16 multiplies what is left of its operands, and adds in float32": (t, k) => {
    // 1 + 2^-8 lies halfway between two bfloat16 values and rounds to even, 1 + 3 * 2^-8 up.
    const x = of(k, [1, 3], [1 + 2 ** -8, 1 + 3 * 2 ** -8, 2 ** -130]);
    const w = of(k, [2, 3], [1, 1, 2 ** 120, 0, -1 - 2 ** -9, 0]);
    const out = k.tensor([1, 2]);
    k.linear(out, x, w, of(k, [2], [2 ** -20, 0]), false, "bfloat16");
    t.deepEqual(list(k, out), [2 + 2 ** -6 + 2 ** -20, -1 - 2 ** -6]);
    const dX = k.tensor([1, 3]);
    k.dLinearInput(dX, of(k, [1, 2], [1 + 2 ** -8, 2 ** -9]), w, "bfloat16");
    t.deepEqual(list(k, dX), [1, 1 - 2 ** -9, 2 ** 120]);
    const [dW, dB] = [k.tensor([2, 3]), k.tensor([2])];
    const d = of(k, [1, 2], [1 + 2 ** -8, -1]);
    k.dLinearWeight([dW], [dB], d, x, slicesOf(0, 1, 1, 1), "bfloat16");
    t.deepEqual(list(k, dW), [1, 1 + 2 ** -6, 0, -1, -1 - 2 ** -6, 0]);
    t.deepEqual(list(k, dB), [1 + 2 ** -8, -1]);
  },

  "a number too small to be normal is 0: as an operand, taken up and put down": (t, k) => {
    const [tiny, least] = [2 ** -127, 2 ** -126];
    const sum = (x: number, w: number, b: number) => {
      const out = k.tensor([1, 1]);
      const operands = [of(k, [1, 1], [x]), of(k, [1, 1], [w]), of(k, [1], [b])] as const;
      k.linear(out, ...operands, false, "bfloat16");
      return list(k, out)[0];
    };
    t.is(sum(tiny, 1, 0), 0);
    t.is(sum(1, tiny, 0), 0);
    t.is(sum(0, 0, tiny), 0);
    t.is(sum(2 ** -64, 2 ** -63, 0), 0);
    t.is(sum(2 ** -63, 2 ** -63, 0), least);
    t.is(sum(2 ** -64, 2 ** -63, -3 * tiny), -least);
    t.is(sum(2 ** -63, 2 ** -63, -1.5 * least), -0);
    t.is(sum(2 ** -63, -(2 ** -63), 1.5 * least), 0);
  },

  "a pair of bfloat16 is two sums, the odd one first": (t, k) => {
    const x = of(k, [1, 2], [1, 1 + 2 ** -7]);
    const out = k.tensor([1, 1]);
    k.linear(out, x, of(k, [1, 2], [1, 1]), of(k, [1], [2 ** 24]), false, "bfloat16");
    // From 2^24 on, float32 has even numbers only. The odd term rounds the bias up to 2^24 + 2, and
    // the even term makes 2^24 + 3, a tie, which rounds to 2^24 + 4. With the even term first, and
    // in one exact sum of all three terms, the result would be 2^24 + 2.
    t.deepEqual(list(k, out), [2 ** 24 + 4]);
  },
};

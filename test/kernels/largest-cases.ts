// Selecting the largest elements of a vector: cases of the kernels' suite, against a sort.

import type { Kernels, Selected } from "../../src/kernels/contract/kernels.ts";
import { RandomStream } from "../../src/ports/random.ts";
import { rounds } from "../helpers/thinned.ts";
import { type Cases, list, of } from "./cases.ts";

function selection(k: number): Selected {
  return { indices: new Int32Array(k), codes: new Uint16Array(k) };
}

/** The values of a selection, by the kernel that adds them. */
function valuesIn(k: Kernels, n: number, selected: Selected): number[] {
  const out = k.tensor([n]);
  k.addSelected(out, selected);
  return list(k, out);
}

/** Draws from few values of many sizes, all of them bfloat16: equal sizes occur, no sum rounds. */
function draw(stream: RandomStream): number {
  const sign = stream.below(2) === 0 ? 1 : -1;
  return sign * stream.below(4) * 2 ** (stream.below(60) - 30);
}

export const largest: Cases = {
  "the largest elements are selected, the first of equal ones, and the residual keeps the rest": (
    t,
    k,
  ) => {
    const residual = of(k, [6], [1, -2, 0, 0.5, 0, 2 ** -9]);
    const selected = selection(3);
    k.selectLargest(selected, residual, of(k, [6], [0, -1, 1, 0, -1, 1]));
    t.deepEqual([...selected.indices], [0, 1, 5]);
    // 1 + 2^-9 is no bfloat16: its rounding error stays.
    t.deepEqual(valuesIn(k, 6, selected), [1, -3, 0, 0, 0, 1]);
    t.deepEqual(list(k, residual), [0, 0, 1, 0.5, -1, 2 ** -9]);
  },

  "what is selected and what stays is what there was, as a sort by size has it": (t, k) => {
    const stream = new RandomStream(3, 4);
    for (let round = 0; round < rounds("selections", 15, 400); round++) {
      const n = 1 + stream.below(3000);
      const count = 1 + stream.below(round % 5 === 0 ? n : Math.min(n, 30));
      const before = Array.from({ length: n }, () => draw(stream));
      const residual = of(k, [n], before);
      const selected = selection(count);
      k.selectLargest(selected, residual, k.tensor([n]));
      const sorted = before
        .map((value, i) => ({ size: Math.abs(value), i }))
        .sort((a, b) => b.size - a.size || a.i - b.i);
      const expected = sorted.slice(0, count).map(({ i }) => i);
      t.deepEqual(
        [...selected.indices],
        expected.sort((a, b) => a - b),
      );
      const left = list(k, residual);
      const sums = valuesIn(k, n, selected).map((value, i) => value + (left[i] ?? Number.NaN));
      t.true(sums.every((sum, i) => sum === before[i]));
    }
  },

  "a value that is no number is selected before all others": (t, k) => {
    const values = [1, Number.NaN, 3, Number.POSITIVE_INFINITY, -(2 ** 100), Number.NaN];
    for (const [count, indices] of [[1], [1, 5], [1, 3, 5], [1, 3, 4, 5]].entries()) {
      const selected = selection(count + 1);
      const residual = k.tensor([6]);
      k.selectLargest(selected, residual, of(k, [6], values));
      t.deepEqual([...selected.indices], indices);
      const sent = valuesIn(k, 6, selected);
      for (const i of indices) t.is(sent[i], values[i]);
    }
  },

  "a selection of none, of more than all, or with places outside, is refused": (t, k) => {
    const t4 = k.tensor([4]);
    t.throws(() => k.selectLargest(selection(0), t4, t4), { message: /Expected 1..4 elements/ });
    t.throws(() => k.selectLargest(selection(5), t4, t4), { message: /Expected 1..4 elements/ });
    const outside = { indices: Int32Array.of(4), codes: new Uint16Array(1) };
    t.throws(() => k.addSelected(t4, outside), { message: /indices/ });
  },
};

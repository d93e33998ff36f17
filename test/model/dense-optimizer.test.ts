// Dense optimizers against PyTorch's definitions, written out in float64 over several steps.

import test from "ava";
import { valuesOf } from "../../src/kernels/reference/memory.ts";
import { createReference } from "../../src/kernels/reference/reference.ts";
import { applyDense, createDenseState, swapAverage } from "../../src/model/dense-optimizer.ts";
import { type DenseOptimizerOptions, denseOptimizerOptions } from "../../src/model/options.ts";

/** The values of one weight after each of `gradients`, by the formulas of torch.optim. */
type Formula = (w: number, gradients: readonly number[]) => number;

const gradients = [
  [0.5, -2, 1e-3],
  [-0.25, 0, 4],
  [1, 1, -1],
];

const cases: readonly [string, DenseOptimizerOptions, number, Formula][] = [
  [
    "SGD",
    { kind: "sgd", learningRate: 0.1 },
    0,
    (w, gs) => gs.reduce((now, g) => now - 0.1 * g, w),
  ],
  [
    "Adagrad",
    { kind: "adagrad", learningRate: 0.1, epsilon: 1e-3, initialAccumulator: 0.1 },
    1,
    (start, gs) => {
      let [w, sum] = [start, 0.1];
      for (const g of gs) {
        sum += g * g;
        w -= (0.1 * g) / (Math.sqrt(sum) + 1e-3);
      }
      return w;
    },
  ],
  [
    "Adam",
    { kind: "adam", learningRate: 0.1, beta1: 0.8, beta2: 0.95, epsilon: 1e-3 },
    2,
    (start, gs) => {
      let [w, m, v] = [start, 0, 0];
      for (const [i, g] of gs.entries()) {
        m = 0.8 * m + 0.2 * g;
        v = 0.95 * v + 0.05 * g * g;
        const mHat = m / (1 - 0.8 ** (i + 1));
        const vHat = v / (1 - 0.95 ** (i + 1));
        w -= (0.1 * mHat) / (Math.sqrt(vHat) + 1e-3);
      }
      return w;
    },
  ],
];

for (const [name, options, slots, formula] of cases) {
  test(`${name} applies gradients as PyTorch defines it`, (t) => {
    const kernels = createReference("float64");
    const optimizer = denseOptimizerOptions.parse(options);
    const state = createDenseState(kernels, optimizer, 3);
    t.is(state.slots.length, slots);
    const [w, g] = [kernels.tensor([3]), kernels.tensor([3])];
    const start = [1, -0.5, 2];
    valuesOf(w).set(start);
    for (const [step, gradient] of gradients.entries()) {
      valuesOf(g).set(gradient);
      t.true(
        applyDense(kernels, optimizer, state, { parameters: [], length: 3, trained: 3 }, w, g, {
          step,
          plateau: 1,
        }),
      );
    }
    for (const [i, value] of valuesOf(w).entries()) {
      const expected = formula(
        start[i] ?? 0,
        gradients.map((gradient) => gradient[i] ?? 0),
      );
      t.true(Math.abs(value - expected) < 1e-12, `w[${i}] is ${value}, expected ${expected}`);
    }
  });
}

test("a step of SGD equals the one by hand", (t) => {
  const kernels = createReference();
  const optimizer = denseOptimizerOptions.parse({ kind: "sgd", learningRate: 0.5 });
  const [w, g] = [kernels.tensor([2]), kernels.tensor([2])];
  kernels.write(w, Float32Array.of(1, 2));
  kernels.write(g, Float32Array.of(2, -4));
  const layout = { parameters: [], length: 2, trained: 2 };
  applyDense(kernels, optimizer, createDenseState(kernels, optimizer, 2), layout, w, g, {
    step: 0,
    plateau: 1,
  });
  t.deepEqual([...kernels.read(w)], [0, 4]);
});

/**
 * Clips a gradient and applies it by SGD with rate 1 to weights 0; `taken` is the clipped gradient.
 */
function clipped(clip: { norm: number } | { value: number }, gradient: readonly number[]) {
  const kernels = createReference("float64");
  const optimizer = denseOptimizerOptions.parse({ kind: "sgd", learningRate: 1, clip });
  const [w, g] = [kernels.tensor([gradient.length]), kernels.tensor([gradient.length])];
  valuesOf(g).set(gradient);
  const state = createDenseState(kernels, optimizer, gradient.length);
  const layout = { parameters: [], length: gradient.length, trained: gradient.length };
  const isGood = applyDense(kernels, optimizer, state, layout, w, g, { step: 0, plateau: 1 });
  return { isGood, taken: [...valuesOf(w)].map((value) => -value), left: [...valuesOf(g)] };
}

test("a gradient is clipped as by torch.nn.utils, and its memory stays unchanged", (t) => {
  const gradient = [3, -4, 12];
  const { taken, left } = clipped({ norm: 6.5 }, gradient);
  // torch.nn.utils.clip_grad_norm_([...], 6.5) of torch 1.13.1, in float64.
  const torch = [1.4999998846153937, -1.9999998461538582, 5.999999538461575];
  for (const [i, value] of taken.entries()) t.true(Math.abs(value - (torch[i] ?? 0)) < 1e-12);
  t.deepEqual(left, gradient);
  t.deepEqual(clipped({ norm: 14 }, gradient).taken, gradient);
  t.deepEqual(clipped({ value: 3.5 }, gradient).taken, [3, -3.5, 3.5]);
});

test("a non-finite gradient is found although it is clipped", (t) => {
  for (const bad of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]) {
    t.false(clipped({ value: 1 }, [1, bad]).isGood);
    t.false(clipped({ norm: 1 }, [1, bad]).isGood);
  }
});

test("the moving average starts at the first step, and swaps with the weights and back", (t) => {
  const kernels = createReference("float64");
  const dense = { kind: "adam", learningRate: 0.1, ema: { decay: 0.75 } };
  const optimizer = denseOptimizerOptions.parse(dense);
  const state = createDenseState(kernels, optimizer, 3);
  t.is(state.slots.length, 3);
  // The third element is a statistic: it takes no gradient, and has no average.
  const layout = { parameters: [], length: 3, trained: 2 };
  const [w, g] = [kernels.tensor([3]), kernels.tensor([3])];
  valuesOf(w).set([1, -2, 7]);
  let expected: number[] = [];
  for (const [step, gradient] of gradients.entries()) {
    valuesOf(g).set(gradient);
    applyDense(kernels, optimizer, state, layout, w, g, { step, plateau: 1 });
    const now = [...valuesOf(w)];
    expected = step === 0 ? now : expected.map((old, i) => 0.75 * old + 0.25 * (now[i] ?? 0));
  }
  const weights = [...valuesOf(w)];
  swapAverage(kernels, optimizer, state, layout, w);
  const shown = [...valuesOf(w)];
  for (const i of [0, 1]) t.true(Math.abs((shown[i] ?? 0) - (expected[i] ?? 1)) < 1e-12);
  t.is(shown[2], 7);
  t.notDeepEqual(shown, weights);
  swapAverage(kernels, optimizer, state, layout, w);
  t.deepEqual([...valuesOf(w)], weights);
});

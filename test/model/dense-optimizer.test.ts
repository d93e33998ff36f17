// Dense optimizers against PyTorch's definitions, written out in float64 over several steps.

import test from "ava";
import { valuesOf } from "../../src/kernels/reference/memory.ts";
import { createReference } from "../../src/kernels/reference/reference.ts";
import { applyDense, createDenseState } from "../../src/model/dense-optimizer.ts";
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
  test(`${name} takes gradients as PyTorch defines it`, (t) => {
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
        applyDense(
          kernels,
          optimizer,
          state,
          { parameters: [], length: 3, trained: 3 },
          w,
          g,
          step,
        ),
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

test("a step of SGD by hand", (t) => {
  const kernels = createReference();
  const optimizer = denseOptimizerOptions.parse({ kind: "sgd", learningRate: 0.5 });
  const [w, g] = [kernels.tensor([2]), kernels.tensor([2])];
  kernels.write(w, Float32Array.of(1, 2));
  kernels.write(g, Float32Array.of(2, -4));
  const layout = { parameters: [], length: 2, trained: 2 };
  applyDense(kernels, optimizer, createDenseState(kernels, optimizer, 2), layout, w, g, 0);
  t.deepEqual([...kernels.read(w)], [0, 4]);
});

// The logistic function and the softmax of the native kernels have the bits of JavaScript's own
// exponentials, on every instruction set.

import { openKernels } from "../../../src/kernels/index.ts";
import { instructionSets, limitIsa, resetIsa } from "../../../src/kernels/native/native.ts";
import { valuesOf } from "../../../src/kernels/reference/memory.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import { instructionSet, nativeKernels, testIf } from "../../helpers/needs.ts";

/** Values at which the method branches or rounds, and the limits of float32. */
const special = [
  ...[0, 1, Math.LN2, Math.LN2 / 2, 1.5 * Math.LN2, 2 ** -28, 2 ** -29, 1e-45, 1.17549435e-38],
  ...[87.3, 88.72, 103.97, 104, 700, 707.5, 709.8, 745.2, 1e10, 3.4e38, Infinity, Number.NaN],
].flatMap((x) => [x, -x, x * (1 + 2 ** -23), -x * (1 + 2 ** -23)]);

/** Floats of all sizes, most of them where exponentials are neither 0 nor 1. */
function inputs(seed: number, count: number): Float32Array {
  const random = new RandomStream(seed, 1);
  const values = Float32Array.from({ length: count }, (_, i) => {
    const sign = random.uniform() < 0.5 ? -1 : 1;
    const size = i % 2 === 0 ? 110 * random.uniform() : 2 ** (150 * random.uniform() - 120);
    return sign * size;
  });
  values.set(special);
  return values;
}

for (const isa of instructionSets) {
  testIf(nativeKernels, instructionSet(isa)).serial(
    `sigmoid and softmax have the bits of Math.exp: ${isa}`,
    (t) => {
      const [native, reference] = [openKernels("native"), openKernels("reference")];
      limitIsa(isa);
      const rowOf = (name: "native" | "reference", values: Float32Array, dim: number) => {
        const kernels = name === "native" ? native : reference;
        const shape = [values.length / dim, dim];
        const [x, out, soft] = [0, 1, 2].map(() => kernels.tensor(shape));
        const [d, dX] = [kernels.tensor(shape), kernels.tensor(shape)];
        if (x === undefined || out === undefined || soft === undefined) throw new Error("tensors");
        valuesOf(x).set(values);
        valuesOf(d).set(values.map((v) => (Number.isFinite(v) ? v / 3 : 1)));
        kernels.sigmoid(out, x);
        kernels.softmax(soft, x);
        kernels.dSoftmax(dX, d, soft);
        kernels.dSigmoid(d, out);
        return [out, soft, dX, d].map((tensor) => valuesOf(tensor));
      };
      // Widths with and without a remainder after full vectors.
      for (const [seed, dim] of [1, 3, 8, 37, 64].entries()) {
        const values = inputs(seed, dim * 4000);
        const actual = rowOf("native", values, dim);
        for (const [i, expected] of rowOf("reference", values, dim).entries()) {
          const name = ["sigmoid", "softmax", "dSoftmax", "dSigmoid"][i];
          const wrong = expected.findIndex((value, at) => !Object.is(value, actual[i]?.[at]));
          const got = `${actual[i]?.[wrong]} instead of ${expected[wrong]}`;
          t.is(wrong, -1, `${name} of ${values[wrong]}, rows of ${dim}: ${got}`);
        }
      }
      resetIsa();
    },
  );
}

// Layers with packed weights give the same bits as without, on every instruction set, for any
// number of samples, inputs and outputs.

import test from "ava";
import type { Kernels } from "../../../src/kernels/contract/kernels.ts";
import { openKernels } from "../../../src/kernels/index.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import { list, of } from "../cases.ts";
import { eachIsa } from "../instruction-sets.ts";

const shapes = [
  [1, 1, 1],
  [1, 13, 64],
  [2, 5, 65],
  [3, 530, 200],
  [7, 17, 31],
  [7, 257, 17], // One more than whole blocks of a sum, and than whole tiles.
  [8, 64, 130],
  [15, 9, 3],
  [29, 1, 67],
  [85, 513, 33],
] as const;

function isAlike(k: Kernels, stream: RandomStream): string[] {
  const drawn = (n: number) => Array.from({ length: n }, () => 2 * stream.uniform() - 1);
  return shapes.flatMap(([samples, inputs, outputs]) => {
    const x = of(k, [samples, inputs], drawn(samples * inputs));
    const w = of(k, [outputs, inputs], drawn(outputs * inputs));
    const b = of(k, [outputs], drawn(outputs));
    return [false, true].flatMap((relu) => {
      const [plain, packed] = [k.tensor([samples, outputs]), k.tensor([samples, outputs])];
      k.linear(plain, x, w, b, relu);
      k.linearPacked(packed, x, k.packLayer(w), b, relu);
      const isEqual = list(k, plain).every((value, i) => Object.is(value, list(k, packed)[i]));
      return isEqual ? [] : [`${samples} x ${inputs} x ${outputs}, ${relu}`];
    });
  });
}

test.serial("packed weights change no bit of a layer's output", (t) => {
  t.deepEqual(isAlike(openKernels("reference"), new RandomStream(3, 1, 1)), []);
  eachIsa(t, (kernels, isa) => {
    t.deepEqual(isAlike(kernels, new RandomStream(3, 1, 1)), [], isa);
  });
});

test("packed weights whose shape differs from the tensors' are refused", (t) => {
  const k = openKernels("reference");
  const packed = k.packLayer(k.tensor([3, 2]));
  const [x, b] = [k.tensor([1, 2]), k.tensor([3])];
  const refused = () => k.linearPacked(k.tensor([1, 2]), x, packed, b, false);
  t.throws(refused, { message: /^Expected out/ });
});

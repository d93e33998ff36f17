// Binary cross-entropy on logits. Both implementations use this one: exponentials differ in bits
// between mathematical libraries, so only one library computes them (V8's own). A batch has only B
// of them.

import type { Kernels } from "../contract/kernels.ts";
import { valuesOf } from "./memory.ts";

/** See `Kernels.bceWithLogits`. Computed in float64; dLogits rounds once, when it is stored. */
export const bceWithLogits: Kernels["bceWithLogits"] = (
  losses,
  dLogits,
  logits,
  labels,
  batchSize,
  slices,
) => {
  const [d, zs, ys] = [valuesOf(dLogits), valuesOf(logits), valuesOf(labels)];
  const count = slices.bounds.length - 1;
  for (let slice = 0; slice < count; slice++) {
    let sum = 0;
    for (let s = slices.bounds[slice]!; s < slices.bounds[slice + 1]!; s++) {
      const z = zs[s]!; // Destructuring would make V8 allocate an array for every sample.
      const y = ys[s]!;
      const small = Math.exp(-Math.abs(z));
      sum += Math.max(z, 0) - z * y + Math.log1p(small);
      const sigmoid = z >= 0 ? 1 / (1 + small) : small / (1 + small);
      d[s] = (sigmoid - y) / batchSize;
    }
    losses[slice] = sum;
  }
};

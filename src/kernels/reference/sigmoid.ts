// The logistic function. Both implementations use this one, as they do for the loss: exponentials
// differ in bits between mathematical libraries.

import type { BlockKernels } from "../contract/kernels.ts";
import { valuesOf } from "./memory.ts";

/** See `BlockKernels.sigmoid`. */
export const sigmoid: BlockKernels["sigmoid"] = (out, x) => {
  const [o, xs] = [valuesOf(out), valuesOf(x)];
  for (let i = 0; i < o.length; i++) {
    const small = Math.exp(-Math.abs(xs[i]!));
    o[i] = xs[i]! >= 0 ? 1 / (1 + small) : small / (1 + small);
  }
};

/** See `BlockKernels.dSigmoid`. */
export const dSigmoid: BlockKernels["dSigmoid"] = (d, out) => {
  const [ds, o] = [valuesOf(d), valuesOf(out)];
  for (let i = 0; i < ds.length; i++) ds[i] = ds[i]! * o[i]! * (1 - o[i]!);
};

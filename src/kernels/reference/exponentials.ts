// The logistic function, softmax and joint logits. The native kernels give the same bits, as they
// compute exponentials by V8's algorithm (native/blocks/exponentials.h).

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

/** See `BlockKernels.jointLogit`. The native kernels use it, too, as they use the loss. */
export const jointLogit: BlockKernels["jointLogit"] = (out, a, b) => {
  const [o, as, bs] = [valuesOf(out), valuesOf(a), valuesOf(b)];
  for (let i = 0; i < o.length; i++) {
    const [x, y] = [-as[i]!, -bs[i]!];
    const most = Math.max(x, y, x + y);
    o[i] = -most - Math.log(Math.exp(x - most) + Math.exp(y - most) + Math.exp(x + y - most));
  }
};

/** See `BlockKernels.dJointLogit`. */
export const dJointLogit: BlockKernels["dJointLogit"] = (dA, dB, dOut, a, b) => {
  const [das, dbs, d] = [valuesOf(dA), valuesOf(dB), valuesOf(dOut)];
  const [as, bs] = [valuesOf(a), valuesOf(b)];
  for (let i = 0; i < d.length; i++) {
    const [x, y] = [-as[i]!, -bs[i]!];
    const most = Math.max(x, y, x + y);
    const [first, second] = [Math.exp(x - most), Math.exp(y - most)];
    const both = Math.exp(x + y - most);
    const sum = first + second + both;
    das[i] = (d[i]! * (first + both)) / sum;
    dbs[i] = (d[i]! * (second + both)) / sum;
  }
};

/** See `BlockKernels.softmax`. */
export const softmax: BlockKernels["softmax"] = (out, x) => {
  const [o, xs] = [valuesOf(out), valuesOf(x)];
  const dim = x.shape[1]!;
  for (let first = 0; first < o.length; first += dim) {
    let most = Number.NEGATIVE_INFINITY;
    for (let i = first; i < first + dim; i++) most = Math.max(most, xs[i]!);
    let sum = 0;
    for (let i = first; i < first + dim; i++) sum += Math.exp(xs[i]! - most);
    for (let i = first; i < first + dim; i++) o[i] = Math.exp(xs[i]! - most) / sum;
  }
};

/** See `BlockKernels.dSoftmax`. */
export const dSoftmax: BlockKernels["dSoftmax"] = (dX, dOut, out) => {
  const [dx, d, o] = [valuesOf(dX), valuesOf(dOut), valuesOf(out)];
  const dim = out.shape[1]!;
  for (let first = 0; first < o.length; first += dim) {
    let along = 0;
    for (let i = first; i < first + dim; i++) along += d[i]! * o[i]!;
    for (let i = first; i < first + dim; i++) dx[i] = o[i]! * (d[i]! - along);
  }
};

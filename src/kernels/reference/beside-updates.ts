// Optimizer operations besides the update: gradient clipping, and a moving average of the weights.
// The reference and native kernels share this code, so that a norm is always summed in one order.

import type { Kernels } from "../contract/kernels.ts";
import { valuesOf } from "./memory.ts";

/** As in torch.nn.utils.clip_grad_norm_: a gradient with exactly the norm is scaled slightly. */
const normEpsilon = 1e-6;

/** See `Kernels.clipNorm`. */
export const clipNorm: Kernels["clipNorm"] = (out, g, normMax) => {
  const [o, gs] = [valuesOf(out), valuesOf(g)];
  let squares = 0;
  for (let i = 0; i < gs.length; i++) squares += gs[i]! * gs[i]!;
  const scale = Math.min(1, normMax / (Math.sqrt(squares) + normEpsilon));
  for (let i = 0; i < gs.length; i++) o[i] = gs[i]! * scale;
  return Number.isFinite(squares);
};

/** See `Kernels.clipValues`. */
export const clipValues: Kernels["clipValues"] = (out, g, most) => {
  const [o, gs] = [valuesOf(out), valuesOf(g)];
  let allFinite = true;
  for (let i = 0; i < gs.length; i++) {
    const value = gs[i]!;
    allFinite &&= Number.isFinite(value);
    o[i] = Math.min(most, Math.max(-most, value));
  }
  return allFinite;
};

/** See `Kernels.average`. */
export const average: Kernels["average"] = (out, w, decay) => {
  const [o, ws] = [valuesOf(out), valuesOf(w)];
  for (let i = 0; i < ws.length; i++) o[i] = decay * o[i]! + (1 - decay) * ws[i]!;
};

/** See `Kernels.swap`. */
export const swap: Kernels["swap"] = (a, b) => {
  const [as, bs] = [valuesOf(a), valuesOf(b)];
  for (let i = 0; i < as.length; i++) {
    const value = as[i]!;
    as[i] = bs[i]!;
    bs[i] = value;
  }
};

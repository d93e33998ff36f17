// Kernels that keep the weights of layers packed between calls. A batch of few samples would spend
// most of its time on packing them; no bit depends on it. Weights are those of one version: they
// must not change before `forget`.

import type { Kernels, Tensor } from "../kernels/contract/kernels.ts";

/** Up to so many rows packed weights are faster; above, `linear` packs while it multiplies. */
const rowsMax = 128;

export interface PackedKernels {
  readonly kernels: Kernels;
  /** Weights have changed: they are packed again when they are read next. */
  forget(): void;
}

export function packedKernels(inner: Kernels): PackedKernels {
  const packed = new Map<Tensor, Tensor>();
  const kernels: Kernels = {
    ...inner,
    linear(out, x, w, b, relu, precision = "float32") {
      if (precision !== "float32" || (x.shape[0] ?? 0) > rowsMax) {
        inner.linear(out, x, w, b, relu, precision);
        return;
      }
      let own = packed.get(w);
      if (own === undefined) {
        own = inner.packLayer(w);
        packed.set(w, own);
      }
      inner.linearPacked(out, x, own, b, relu);
    },
  };
  return { kernels, forget: () => packed.clear() };
}

// Kernels that cache the packed weights of linear layers between calls, because a small batch would
// spend most of its time on packing. Results are bit-identical. The caller must not change weights
// without calling `forget`.

import type { Kernels, Tensor } from "../kernels/contract/kernels.ts";

/** Most rows for which packed weights are faster; above, `linear` packs while it multiplies. */
const rowsMax = 128;

export interface PackedKernels {
  readonly kernels: Kernels;
  /** Drops all packed weights after a change; they are packed again at their next use. */
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

// Kernels of the blocks that models are composed of (src/model/blocks), besides dense layers and
// the interaction of vectors.
//
// B = samples. The rules of kernels.ts hold: output first, every kernel overwrites its output, and
// a sum has one bracketing, whatever a call holds.

import type { Tensor } from "./tensor.ts";

export interface BlockKernels {
  /** out = a + b, element by element; `out` may be `a` or `b`. */
  add(out: Tensor, a: Tensor, b: Tensor): void;
}

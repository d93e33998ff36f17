// The shapes that kernels of blocks are called with.

import type { BlockKernels, Kernels } from "../contract/kernels.ts";
import { holds, size } from "./shapes.ts";

/** The kernels of blocks behind checks. */
export function checkBlocks(inner: Kernels): BlockKernels {
  return {
    add(out, a, b) {
      holds("a", a, size(out));
      holds("b", b, size(out));
      inner.add(out, a, b);
    },
  };
}

// The kernels of blocks, in plain loops.

import type { BlockKernels } from "../contract/kernels.ts";
import type { Round } from "./dense.ts";
import { valuesOf } from "./memory.ts";

/** The reference kernels of blocks in the precision of `round`. */
export function createBlocks(round: Round): BlockKernels {
  return {
    add(out, a, b) {
      const [o, as, bs] = [valuesOf(out), valuesOf(a), valuesOf(b)];
      for (let i = 0; i < o.length; i++) o[i] = round(as[i]! + bs[i]!);
    },
  };
}

// Calls of the native kernels of blocks.

import type { BlockKernels } from "../contract/kernels.ts";
import { valuesOf as data } from "../reference/memory.ts";
import type { Addon } from "./tables.ts";

/** The kernels of blocks, from the addon. */
export function blocks(addon: Addon): BlockKernels {
  return {
    add: (out, a, b) => void addon.add!(data(out), data(a), data(b)),
  };
}

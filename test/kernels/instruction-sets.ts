// The native kernels of every instruction set of this processor, for cases that compare them.

import type { ExecutionContext } from "ava";
import type { Kernels } from "../../src/kernels/contract/kernels.ts";
import { openKernels } from "../../src/kernels/index.ts";
import { instructionSets, limitIsa, resetIsa } from "../../src/kernels/native/native.ts";
import { instructionSet, leavesOut } from "../helpers/needs.ts";

/** Calls `use` with the native kernels of every instruction set of this processor. */
export function eachIsa(t: ExecutionContext, use: (kernels: Kernels, isa: string) => void): void {
  for (const isa of instructionSets) {
    if (leavesOut(t, instructionSet(isa))) continue;
    limitIsa(isa);
    use(openKernels("native"), isa);
  }
  resetIsa();
}

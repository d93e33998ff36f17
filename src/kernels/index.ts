// Opens the kernels: the only file that knows both implementations.

import { InputUnusableError } from "../errors/errors.ts";
import { addonPath } from "../ports/addon.ts";
import { checkKernels } from "./checked/checked.ts";
import type { Kernels } from "./contract/kernels.ts";
import { createNative } from "./native/native.ts";
import { createReference } from "./reference/reference.ts";

/**
 * The kernels of this process, behind their checks. `auto` takes the native ones where they are
 * built. Each call returns kernels of its own; tensors may be passed between them.
 *
 * @throws InputUnusableError where `native` is asked for and not built
 */
export function openKernels(choice: "auto" | "native" | "reference"): Kernels {
  if (choice === "reference") return checkKernels(createReference());
  const native = createNative();
  if (native !== undefined) return checkKernels(native);
  if (choice === "auto") return checkKernels(createReference());
  const path = addonPath();
  throw new InputUnusableError(
    path,
    `The native kernels are not built (there is no ${path}); run \`osiris build-native\``,
  );
}

/**
 * A sentence for a run that `auto` leaves with the slow kernels; undefined if it has the fast ones.
 */
export function kernelNotice(): string | undefined {
  const native = createNative();
  if (native === undefined) {
    return (
      "Using the reference kernels, which are slow, because there are no native ones for this " +
      "machine; run `osiris build-native`"
    );
  }
  if (!native.arithmetic.includes("portable")) return undefined;
  return "Using the portable kernels, which are slower, because this processor has no AVX2 and FMA";
}

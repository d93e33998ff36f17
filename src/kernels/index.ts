// Opens the kernels. This is the only file that imports both implementations.

import { InputUnusableError } from "../errors/errors.ts";
import { addonOrigin, addonPath } from "../ports/addon.ts";
import type { Kernels } from "./contract/kernels.ts";
import { createNative, useThreads } from "./native/native.ts";
import { createReference } from "./reference/reference.ts";
import { checkKernels } from "./table/bind.ts";

export { useThreads };

/**
 * The kernels of this process, with checked arguments. `auto` takes the native kernels where they
 * are built, else the reference. Each call returns new kernels; tensors may be passed between them.
 *
 * @throws InputUnusableError where `choice` is `native` and these kernels are not built,
 *   InstructionSetError
 */
export function openKernels(choice: "auto" | "native" | "reference"): Kernels {
  if (choice === "reference") return checkKernels(createReference());
  const native = createNative();
  if (native !== undefined) return native;
  if (choice === "auto") return checkKernels(createReference());
  const path = addonPath();
  throw new InputUnusableError(
    path,
    `The native kernels are not built (there is no ${path}); run \`osiris build-native\``,
  );
}

/**
 * A notice for users whose `auto` kernels are slow, with the reason; undefined if they are fast.
 */
export function kernelNotice(): string | undefined {
  const native = createNative();
  if (native === undefined) {
    return (
      "Using the reference kernels, which are slow, because there are no native ones for this " +
      "machine; run `osiris build-native`"
    );
  }
  if (native.set !== "portable") return undefined;
  const sets = addonOrigin()?.sets.join(", ");
  return (
    "Using the portable kernels, which are several times slower: this processor has no other set " +
    `of those compiled (${sets}), or OSIRIS_SETS names no other`
  );
}

// Builds the native kernels inside the package: `osiris build-native`. Installing never builds.

import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/**
 * The folder native/ of this package: the first one above src/kernels/native or
 * dist/src/kernels/native.
 */
export function nativeFolder(): string {
  const here = dirname(fileURLToPath(import.meta.url));
  for (const up of ["../../..", "../../../.."]) {
    const folder = join(here, up, "native");
    if (existsSync(join(folder, "build.sh"))) return folder;
  }
  return join(here, "../../../../native");
}

/** The path of the built addon, whether it exists or not. */
export function addonPath(): string {
  return join(nativeFolder(), "build", "osiris.node");
}

/**
 * Builds the native kernels, unless they are newer than their source. Takes up to a minute and
 * blocks: the compiler works on all cores. `message` is what to tell the user: the compiler's
 * complaint, if there is one.
 *
 * `progress` is a file descriptor, 2 for stderr: every two seconds a line there says how many parts
 * are compiled. Without it nothing is printed.
 */
export function buildNative({ progress }: { readonly progress?: number } = {}): {
  built: boolean;
  message: string;
} {
  const script = join(nativeFolder(), "build.sh");
  const result = spawnSync("sh", [script], {
    encoding: "utf8",
    stdio: ["ignore", progress ?? "ignore", "pipe"],
  });
  if (result.error !== undefined) {
    return { built: false, message: `Cannot run ${script}: ${result.error.message}` };
  }
  const built = result.status === 0 && existsSync(addonPath());
  const message = result.stderr.trim();
  return { built, message: built && message === "" ? "The native kernels are built" : message };
}

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
 * Builds the native kernels, unless they are newer than their source. Uses one core for some
 * seconds and blocks. `message` is for the user: the compiler's complaint, if there is one.
 */
export function buildNative(): { built: boolean; message: string } {
  const script = join(nativeFolder(), "build.sh");
  const result = spawnSync("sh", [script], { encoding: "utf8" });
  if (result.error !== undefined) {
    return { built: false, message: `Cannot run ${script}: ${result.error.message}` };
  }
  const message = `${result.stdout}${result.stderr}`.trim();
  const built = result.status === 0 && existsSync(addonPath());
  const current = "The native kernels are built, and newer than their source";
  return { built, message: built && message === "" ? current : message };
}

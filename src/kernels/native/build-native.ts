// Builds the native kernels where the package lies: `osiris build-native`, and nothing at install.

import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/**
 * The folder native/ of this package: from src/kernels/native or dist/src/kernels/native, the first
 * above.
 */
export function nativeFolder(): string {
  const here = dirname(fileURLToPath(import.meta.url));
  for (const up of ["../../..", "../../../.."]) {
    const folder = join(here, up, "native");
    if (existsSync(join(folder, "build.sh"))) return folder;
  }
  return join(here, "../../../../native");
}

/** The path of the built addon, whether it is there or not. */
export function addonPath(): string {
  return join(nativeFolder(), "build", "osiris.node");
}

/**
 * Builds the native kernels, unless they are newer than their source. Takes some seconds of one
 * core and blocks. `message` is what to tell the user: the compiler's complaint, if there is one.
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

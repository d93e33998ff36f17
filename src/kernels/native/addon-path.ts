// Where the native kernels lie. Every thread loads this, and not what builds them.

import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/**
 * The folder native/ of this package: the first one above src/kernels/native,
 * dist/src/kernels/native or the rollups in dist/threads.
 */
export function nativeFolder(): string {
  const here = dirname(fileURLToPath(import.meta.url));
  for (const up of ["../..", "../../..", "../../../.."]) {
    const folder = join(here, up, "native");
    if (existsSync(join(folder, "build.sh"))) return folder;
  }
  return join(here, "../../../../native");
}

/** The path of the built addon, whether it exists or not. */
export function addonPath(): string {
  return join(nativeFolder(), "build", "osiris.node");
}

// The native addon: where it lies, and how it is loaded. Every thread loads this, and not what
// builds it.

import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/**
 * The folder native/ of this package: the first one above src/ports, dist/src/ports or the rollups
 * in dist/threads.
 */
export function nativeFolder(): string {
  const here = dirname(fileURLToPath(import.meta.url));
  for (const up of ["../..", "../../.."]) {
    const folder = join(here, up, "native");
    if (existsSync(join(folder, "build.sh"))) return folder;
  }
  return join(here, "../../../native");
}

/** The path of the built addon, whether it exists or not. */
export function addonPath(): string {
  return join(nativeFolder(), "build", "osiris.node");
}

/** The addon's functions, over typed arrays and numbers. */
export type Addon = Record<string, (...values: unknown[]) => unknown>;

let loaded: Addon | undefined;

/** The form of the calls: native/bindings/running.h has the same number. */
const callForm = 9;

/** The addon, if it takes our calls. @throws Error where it was built for another version */
export function ofThisVersion(addon: Addon, path: string): Addon {
  if (addon.callForm?.() === callForm) return addon;
  const message =
    `The native kernels in ${path} were built for another version of Osiris: build them again with ` +
    "`osiris build-native`";
  throw new Error(message);
}

/** The addon of this process, or undefined where it is not built. Other load errors are thrown. */
export function loadAddon(): Addon | undefined {
  if (loaded !== undefined) return loaded;
  const path = addonPath();
  if (!existsSync(path)) return undefined;
  loaded = ofThisVersion(createRequire(import.meta.url)(path) as Addon, path);
  return loaded;
}

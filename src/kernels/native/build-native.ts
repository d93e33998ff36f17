// Builds the native kernels inside the package: `osiris build-native`. Installing never builds.

import { spawnSync } from "node:child_process";
import { statSync } from "node:fs";
import { join } from "node:path";
import { addonPath, nativeFolder } from "../../ports/addon.ts";

/**
 * Builds the native kernels, unless they are newer than their source. Takes up to a minute and
 * blocks: the compiler works on all cores. `message` is what to tell the user: the compiler's
 * complaint, if there is one.
 *
 * `progress` is a file descriptor, 2 for stderr: lines there name the compiler, and every two
 * seconds how many parts are compiled, and which one now. Without it nothing is printed. With
 * `verbose`, every command of the build and the compiler's own output go there, too.
 */
export function buildNative({
  progress,
  verbose = false,
}: {
  readonly progress?: number;
  readonly verbose?: boolean;
} = {}): { built: boolean; message: string } {
  const script = join(nativeFolder(), "build.sh");
  const before = addonTime();
  const complaints = verbose && progress !== undefined ? progress : "pipe";
  const result = spawnSync("sh", [script], {
    encoding: "utf8",
    stdio: ["ignore", progress ?? "ignore", complaints],
    env: { ...process.env, ...(verbose ? { OSIRIS_VERBOSE: "1" } : {}) },
  });
  if (result.error !== undefined) {
    return { built: false, message: `Cannot run ${script}: ${result.error.message}` };
  }
  const built = result.status === 0 && addonTime() !== undefined;
  const complaint = (result.stderr ?? "").trim();
  if (complaint !== "" || !built) {
    return { built, message: complaint === "" ? "see the compiler's output above" : complaint };
  }
  const what = addonTime() === before ? "are up to date" : "are built";
  return { built, message: `The native kernels ${what}: ${addonPath()}` };
}

/** When the addon was written; undefined where there is none. */
function addonTime(): number | undefined {
  return statSync(addonPath(), { throwIfNoEntry: false })?.mtimeMs;
}

// Builds the native kernels inside the package: `osiris build-native`. Installing never builds.

import { spawnSync } from "node:child_process";
import { statSync } from "node:fs";
import { join } from "node:path";
import { addonPath, nativeFolder } from "../../ports/addon.ts";

/**
 * Builds the native kernels, unless they are newer than their source. Blocks for up to a minute,
 * while the compiler uses all cores. `message`: the message for the user, or the compiler's errors
 * if there are any.
 *
 * `progress`: a file descriptor, 2 for stderr, to which the build writes lines with the compiler's
 * name and, every two seconds, the number of compiled parts and the current part. Left out: nothing
 * is printed. With `verbose`, every command of the build and the compiler's output are written to
 * it, too.
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

/** Modification time of the addon's file; undefined if there is no file. */
function addonTime(): number | undefined {
  return statSync(addonPath(), { throwIfNoEntry: false })?.mtimeMs;
}

// Builds the native kernels inside the package: `osiris build-native`. Installing never builds.

import { spawnSync } from "node:child_process";
import { existsSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { addonPath, callForm, nativeFolder } from "../../ports/addon.ts";

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
  try {
    removeUnusable(addonPath());
  } catch (error) {
    return { built: false, message: (error as Error).message };
  }
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
  const complaint = (result.stderr ?? "").trim().replaceAll(/^osiris: /gm, "");
  if (complaint !== "" || !built) {
    return { built, message: complaint === "" ? "see the compiler's output above" : complaint };
  }
  const what = addonTime() === before ? "are up to date" : "are built";
  return { built, message: `The native kernels ${what}: ${addonPath()}` };
}

/**
 * Removes an addon that this Node cannot load, or of another version: the script compares only the
 * times of files. Another process loads it, as a torn file may end the process.
 */
function removeUnusable(path: string): void {
  if (!existsSync(path)) return;
  const load =
    "process.exit(require(process.argv[1]).callForm() === Number(process.argv[2]) ? 0 : 1)";
  const { status, error } = spawnSync(process.execPath, ["-e", load, path, String(callForm)]);
  if (error !== undefined) throw error; // It was not tried, so it cannot be called up to date.
  if (status !== 0) rmSync(path, { recursive: true });
}

/** Modification time of the addon's file; undefined if there is no file. */
function addonTime(): number | undefined {
  return statSync(addonPath(), { throwIfNoEntry: false })?.mtimeMs;
}

// Which modules of models this process may run for what it did not write itself: the job of a
// checkpoint names the module of its model, and a checkpoint may come from anybody. Allowed is what
// a caller names: in a job of its own, or by `allowModels`.

import { lstatSync, readlinkSync, realpathSync } from "node:fs";
import { basename, dirname, join, relative, resolve, sep } from "node:path";

/** Files, and directories of modules; as they are on the disk. */
const allowed = new Set<string>();

/**
 * Lets this process run the modules of models that checkpoints name: files, and all files in and
 * below directories. A module has all rights of the process.
 */
export function allowModels(paths: readonly string[]): void {
  for (const path of paths) allowed.add(withoutLinks(resolve(path)));
}

/** What is allowed so far, for messages. */
export function allowedModels(): string[] {
  return [...allowed];
}

/** The module as it is on the disk; undefined: nothing allows it. */
export function allowedModule(path: string): string | undefined {
  const real = withoutLinks(resolve(path));
  return isBelowAny(real, allowed) ? real : undefined;
}

/** Whether a path lies in one of the directories, or is one of them. All are without links. */
export function isBelowAny(real: string, roots: Iterable<string>): boolean {
  return [...roots].some((root) => relative(root, real).split(sep)[0] !== "..");
}

/**
 * The path as it is on the disk, also where its end, or what a link names, is not there yet.
 * @throws NodeJS.ErrnoException where the disk does not tell
 */
export function withoutLinks(path: string): string {
  const parent = dirname(path);
  try {
    return realpathSync(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    if (parent === path) return path;
  }
  const isLink = lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true;
  if (isLink) return withoutLinks(resolve(parent, readlinkSync(path)));
  return join(withoutLinks(parent), basename(path));
}

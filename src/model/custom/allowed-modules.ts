// Allow-list of the model modules that this process may run. A checkpoint's job names the module of
// its model, and a checkpoint may come from an untrusted source. A module is allowed if the caller
// names it, in a job of its own or by `allowModels`.

import { lstatSync, readlinkSync, realpathSync } from "node:fs";
import { basename, dirname, join, relative, resolve, sep } from "node:path";

/** Allowed files and directories, as real paths (links resolved). */
const allowed = new Set<string>();

/**
 * Allows model modules that checkpoints name: files, and all files in and below directories. A
 * module runs with all rights of the process.
 * @throws NodeJS.ErrnoException where the file system refuses to resolve a link
 */
export function allowModels(paths: readonly string[]): void {
  for (const path of paths) allowed.add(withoutLinks(resolve(path)));
}

/** The allowed files and directories, for messages. */
export function allowedModels(): string[] {
  return [...allowed];
}

/** The real path of the module; undefined: it is not allowed. */
export function allowedModule(path: string): string | undefined {
  const real = withoutLinks(resolve(path));
  return isBelowAny(real, allowed) ? real : undefined;
}

/**
 * Whether a path is one of the directories or lies below one. All paths must be real (links
 * resolved).
 */
export function isBelowAny(real: string, roots: Iterable<string>): boolean {
  return [...roots].some((root) => relative(root, real).split(sep)[0] !== "..");
}

/**
 * The real path (links resolved), also where its end, or the target of a link, does not exist yet.
 * @throws NodeJS.ErrnoException where the file system refuses an answer
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

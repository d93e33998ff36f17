// Expands the paths of a job to files: paths may be files, directories or patterns.

import { readdirSync, type Stats, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { InputUnusableError } from "../../errors/errors.ts";
import { addressOfFile, byName, isAddress } from "../remote/addresses.ts";
import { isPattern, matchesName, NameCount } from "../remote/name-pattern.ts";
import { unreadable } from "./text-lines.ts";

/**
 * The files of `paths`, in the order of the paths. A directory means its files, without those of
 * subdirectories. `*` and `?` in the last name of a path are wildcards. Both are sorted by name,
 * and leave out names that begin with a dot. Addresses stay unchanged.
 * @throws InputUnusableError if a directory has no files, or a pattern matches nothing
 */
export function filesOf(paths: readonly string[]): string[] {
  const looked = new NameCount();
  return paths.flatMap((path) => {
    if (isAddress(path)) return addressOfFile(path);
    if (isPattern(basename(path))) return matching(path, looked);
    if (!isDirectory(path)) return path;
    return filesIn(path, () => true, `${path} has no file in it`, looked);
  });
}

function matching(pattern: string, looked: NameCount): string[] {
  const meant = basename(pattern);
  const isMeant = (name: string) => matchesName(meant, name);
  return filesIn(dirname(pattern), isMeant, `No file matches ${pattern}`, looked);
}

function filesIn(
  directory: string,
  isMeant: (name: string) => boolean,
  none: string,
  looked: NameCount,
): string[] {
  let names: string[];
  try {
    const entries = readdirSync(directory, { withFileTypes: true });
    looked.add(entries.length, directory);
    names = entries.filter((entry) => !entry.isDirectory()).map(({ name }) => name);
  } catch (cause) {
    if (cause instanceof InputUnusableError) throw cause;
    throw unreadable(directory, cause);
  }
  const meant = names.filter((name) => !name.startsWith(".") && isMeant(name)).sort(byName);
  if (meant.length === 0) throw new InputUnusableError(directory, `Cannot read the data: ${none}`);
  return meant.map((name) => join(directory, name));
}

/** Whether the path is a directory. A missing path is reported when it is read. */
function isDirectory(path: string): boolean {
  return statusOf(path)?.isDirectory() === true;
}

/** The status of a path; undefined if it does not exist. @throws InputUnusableError */
export function statusOf(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch (cause) {
    throw unreadable(path, cause);
  }
}

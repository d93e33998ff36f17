// Expands the paths of a job to files: paths may be files, directories or patterns. Addresses stay
// unchanged.

import { type Dirent, readdirSync, type Stats, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { InputUnusableError } from "../errors/errors.ts";
import {
  addressOfFile,
  byName,
  isAddress,
  isPattern,
  matchesName,
  NameCount,
  shownPath,
} from "./remote/addresses.ts";
import { unreadable } from "./text/text-lines.ts";

/**
 * The text files of `paths`, in the order of the paths. A directory means its files, without those
 * of subdirectories. `*` and `?` in the last name of a path are wildcards. Both are sorted by name,
 * and leave out names that begin with a dot.
 * @throws InputUnusableError if a directory has no files, or a pattern matches nothing
 */
export function filesOf(paths: readonly string[]): string[] {
  const looked = new NameCount();
  const filesIn = (directory: string, isMeant: (name: string) => boolean, nothing: string) => {
    const meant = entriesOf(directory, looked).filter((entry) => {
      return !entry.isDirectory() && !entry.name.startsWith(".") && isMeant(entry.name);
    });
    if (meant.length === 0) throw none(directory, nothing);
    return meant.map(({ name }) => join(directory, name));
  };
  return paths.flatMap((path) => {
    if (isAddress(path)) return addressOfFile(path);
    const last = basename(path);
    if (isPattern(last)) {
      const isMeant = (name: string) => matchesName(last, name);
      return filesIn(dirname(path), isMeant, `No file matches ${path}`);
    }
    return isDirectory(path) ? filesIn(path, () => true, `${path} has no file in it`) : path;
  });
}

/** Deepest nesting of directories. */
const depthMax = 32;

/**
 * The columnar files of `paths`, in the order of the paths. `*` and `?` are wildcards in every name
 * of a path. A directory means the files in it and below it, sorted by the bytes of each name,
 * without names that begin with `.` or `_`, which mark side files of writers. Directories named
 * `key=value` are Hive partitions, whose keys are columns of every file in them:
 *
 *     clicks/date=2026-11-01/hour=03/part-0.parquet     date: `2026-11-01`, hour: `03`
 *
 * @throws InputUnusableError if a directory has no file, or a pattern matches nothing
 */
export function tableFilesOf(paths: readonly string[]): string[] {
  const looked = new NameCount();
  return paths.flatMap((path) => {
    if (isAddress(path)) return [addressOfFile(path)];
    const found = isPattern(path) ? matching(path, looked) : [path];
    if (found.length === 0) throw none(path, `No file matches ${path}`);
    const files = found.flatMap((one) => (isDirectory(one) ? filesBelow(one, 0, looked) : one));
    if (files.length === 0) throw none(path, `${path} has no file in it`);
    return files;
  });
}

function none(path: string, what: string): InputUnusableError {
  return new InputUnusableError(path, `Cannot read the data: ${what}`);
}

/** The paths that match a pattern, found name by name from the root on. */
function matching(pattern: string, looked: NameCount): string[] {
  const [first = "", ...names] = pattern.split("/");
  let found = [first === "" ? "/" : first];
  if (isPattern(first)) found = namesLike(".", first, looked);
  for (const name of names) {
    if (name === "") continue;
    found = isPattern(name)
      ? found.flatMap((above) => namesLike(above, name, looked).map((one) => join(above, one)))
      : found.map((above) => join(above, name));
  }
  return found.filter((path) => statusOf(path) !== undefined);
}

function namesLike(directory: string, pattern: string, looked: NameCount): string[] {
  if (!isDirectory(directory)) return [];
  return namesIn(directory, looked).filter((name) => matchesName(pattern, name));
}

function filesBelow(directory: string, depth: number, looked: NameCount): string[] {
  if (depth > depthMax) throw none(directory, `${directory} lies deeper than ${depthMax} below it`);
  return namesIn(directory, looked).flatMap((name) => {
    const path = join(directory, name);
    return isDirectory(path) ? filesBelow(path, depth + 1, looked) : path;
  });
}

function namesIn(directory: string, looked: NameCount): string[] {
  const names = entriesOf(directory, looked).map(({ name }) => name);
  return names.filter((name) => !/^[._]/.test(name));
}

/** What a directory has, sorted by the bytes of each name. @throws InputUnusableError */
function entriesOf(directory: string, looked: NameCount): Dirent[] {
  try {
    const entries = readdirSync(directory, { withFileTypes: true });
    looked.add(entries.length, directory);
    return entries.sort((one, other) => byName(one.name, other.name));
  } catch (cause) {
    throw unreadable(directory, cause);
  }
}

/** Whether the path is a directory. A missing path is reported when it is read. */
function isDirectory(path: string): boolean {
  return statusOf(path)?.isDirectory() === true;
}

/** The status of a path; undefined if it does not exist. @throws InputUnusableError */
function statusOf(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch (cause) {
    throw unreadable(path, cause);
  }
}

/** Hive's and Spark's partition value for rows without a value. */
const noValue = "__HIVE_DEFAULT_PARTITION__";

/** The partition keys of a file's path, with their values; undefined for a missing value. */
export function partitionsOf(path: string): Map<string, string | undefined> {
  const keys = new Map<string, string | undefined>();
  const names = shownPath(path).split("/");
  for (const name of names.slice(0, -1)) {
    const at = name.indexOf("=");
    if (at <= 0) continue;
    const value = decoded(name.slice(at + 1));
    keys.set(decoded(name.slice(0, at)), value === noValue ? undefined : value);
  }
  return keys;
}

/**
 * Decodes percent escapes, which writers use for characters that file names may not have: `%3A` is
 * a colon.
 */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

// The files of tables that lie in directories: a directory stands for all files in it and below it,
// and directories named `key=value` are partitions, whose keys are columns of every file in them.
//
//   clicks/date=2026-11-01/hour=03/part-0.parquet     date: `2026-11-01`, hour: `03`

import { readdirSync } from "node:fs";
import { join } from "node:path";
import { InputUnusableError } from "../../errors/errors.ts";
import { addressOfFile, isAddress, shownPath } from "../remote/addresses.ts";
import { isPattern, matchesName, NameCount } from "../remote/name-pattern.ts";
import { statusOf } from "../text/files.ts";
import { unreadable } from "../text/text-lines.ts";

/** Directories within each other. */
const depthMax = 32;

/**
 * The files of `paths`, in the order of the paths. In any name of a path `*` and `?` stand for
 * names that match. A directory stands for the files in it and below it, name by name: sorted by
 * the bytes of the names, without those that begin with `.` or `_`, which writers leave beside
 * their data.
 * @throws InputUnusableError where a directory has no file, or a pattern matches nothing
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

/** The paths that a pattern means: each of its names is looked for below the names before. */
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
  try {
    const names = readdirSync(directory);
    looked.add(names.length, directory);
    return names
      .filter((name) => !/^[._]/.test(name))
      .sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  } catch (cause) {
    if (cause instanceof InputUnusableError) throw cause;
    throw unreadable(directory, cause);
  }
}

/** Whether the path is a directory; a path that is not there is told when it is read. */
function isDirectory(path: string): boolean {
  return statusOf(path)?.isDirectory() === true;
}

/** What Hive and Spark name the directory of rows without a value. */
const noValue = "__HIVE_DEFAULT_PARTITION__";

/** The keys of the partitions that a file lies in, with their values; undefined: it has none. */
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

/** Writers escape what a name of a file may not have: `%3A` is a colon. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

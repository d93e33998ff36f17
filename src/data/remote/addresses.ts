// Remote addresses and patterns among the paths of a job, and the redacted form of addresses for
// messages, names and manifests: an address may contain a password, or a query with a signature.

import { InputUnusableError } from "../../errors/errors.ts";
import { isS3 } from "../../objects/s3-address.ts";

/** Whether a path of a job is a remote address. */
export function isAddress(path: string): boolean {
  return /^https?:\/\//i.test(path) || isS3(path);
}

/**
 * Compares names of files by their UTF-8 bytes, as object stores list them: the rows of a directory
 * and of the same files in a store come in one order.
 */
export function byName(one: string, other: string): number {
  return Buffer.compare(Buffer.from(one), Buffer.from(other));
}

/** An address without user, password and query, which may contain a signature. */
export function shownAddress(address: string): string {
  if (isS3(address)) return address;
  if (!URL.canParse(address)) {
    return address.replace(/[?#].*$/s, "").replace(/\/\/[^/]*@/, "//");
  }
  const { origin, pathname } = new URL(address);
  return origin + pathname;
}

/** A path of a job for messages: addresses are redacted. */
export function shownPath(path: string): string {
  return isAddress(path) ? shownAddress(path) : path;
}

/**
 * Returns the address if it names a single file. Web servers do not list directories, and
 * `s3FilesOf` has already expanded `s3://` prefixes. @throws InputUnusableError if it names no file
 */
export function addressOfFile(address: string): string {
  if (isS3(address)) return address;
  const shown = shownAddress(address);
  const why = !URL.canParse(address)
    ? "is no address: write https://host/path"
    : shown.endsWith("/")
      ? "is no file: a web server lists none, name each file"
      : undefined;
  if (why === undefined) return address;
  throw new InputUnusableError(shown, `Cannot read the data: ${shown} ${why}`);
}

/** Whether a text is a pattern rather than a name. */
export function isPattern(text: string): boolean {
  return /[*?]/.test(text);
}

/**
 * Whether `pattern` matches the whole `name`: `*` any characters, `?` one character. Patterns are
 * untrusted: a regular expression with many stars could backtrack exponentially. This matcher
 * backtracks to the last star only, so that its time is at most the pattern's length times the
 * name's.
 */
export function matchesName(pattern: string, name: string): boolean {
  let [at, of] = [0, 0];
  /** Index of the last star, and of the first character of the name after those that it matches. */
  let [star, rest] = [-1, 0];
  while (at < name.length) {
    const wanted = pattern[of];
    if (wanted === "*") {
      star = of++;
      rest = at;
    } else if (wanted === "?" || (wanted !== undefined && wanted === name[at])) {
      at++;
      of++;
    } else if (star >= 0) {
      of = star + 1;
      at = ++rest;
    } else return false;
  }
  while (pattern[of] === "*") of++;
  return of === pattern.length;
}

/** Most names that are matched for the paths of a job, because matching them blocks the thread. */
const namesMax = 1_000_000;

/** Counts the names that are matched for the paths of a job. */
export class NameCount {
  #names = 0;

  /** @throws InputUnusableError if there are too many */
  add(names: number, directory: string): void {
    this.#names += names;
    if (this.#names <= namesMax) return;
    const message = `Cannot read the data: its paths name more than ${namesMax} files to look at`;
    throw new InputUnusableError(directory, `${message}, with those of ${directory}`);
  }
}

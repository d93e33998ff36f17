// Remote addresses among the paths of a job, and their redacted form for messages, names and
// manifests: an address may contain a password, or a query with a signature.

import { InputUnusableError } from "../../errors/errors.ts";
import { isS3 } from "./s3-address.ts";

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

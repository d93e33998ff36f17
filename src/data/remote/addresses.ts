// Addresses among the paths of a job, and what a message, a name or a manifest may show of them: an
// address may hold a password, or a query that signs requests.

import { InputUnusableError } from "../../errors/errors.ts";
import { isS3 } from "./s3-address.ts";

/** Whether a path of a job is an address. */
export function isAddress(path: string): boolean {
  return /^https?:\/\//i.test(path) || isS3(path);
}

/** An address without user, password and query: a query may sign a request. */
export function shownAddress(address: string): string {
  if (isS3(address)) return address;
  if (!URL.canParse(address)) {
    return address.replace(/[?#].*$/s, "").replace(/\/\/[^/]*@/, "//");
  }
  const { origin, pathname } = new URL(address);
  return origin + pathname;
}

/** A path of a job as messages name it: an address without what may be secret in it. */
export function shownPath(path: string): string {
  return isAddress(path) ? shownAddress(path) : path;
}

/**
 * The address, which names a file. A web server lists no files; what an `s3://` prefix stands for,
 * `s3FilesOf` has said. @throws InputUnusableError where it names none
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

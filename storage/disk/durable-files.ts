// Durable writes, which survive a power cut: directories and whole files. Also maps the disk's
// errors to this project's error classes.

import { dirname } from "node:path";
import { StoreFailedError } from "../../src/errors/errors.ts";
import type { Disk, DiskFile } from "../../src/ports/disk.ts";
import { diskCode } from "../../src/ports/disk-refusals.ts";

/** Suffix of an unfinished file. Any process that finds one may remove it. */
export const temporarySuffix = ".temp";

/** Makes a directory and its parents, all durable. */
export function makeDurableDirectory(disk: Disk, path: string): void {
  const missing: string[] = [];
  for (let at = path; !disk.exists(at); at = dirname(at)) {
    missing.push(at);
    if (dirname(at) === at) break;
  }
  disk.makeDirectory(path);
  for (const one of missing.reverse()) disk.syncDirectory(dirname(one));
}

/**
 * Puts `bytes` at `path`, whole or not at all, and durable on return. Callers that may do so at the
 * same time each pass their own `writer`, which goes into the temporary name.
 */
export function replaceDurably(disk: Disk, path: string, bytes: Uint8Array, writer?: string): void {
  rewriteDurably(disk, path, (file) => file.write(bytes, 0), writer);
}

/** As `replaceDurably`, with the bytes that `write` writes. */
export function rewriteDurably(
  disk: Disk,
  path: string,
  write: (file: DiskFile) => void,
  writer?: string,
): void {
  const temporary = `${path}${writer === undefined ? "" : `.${writer}`}${temporarySuffix}`;
  const file = disk.open(temporary, "write");
  try {
    try {
      write(file);
      file.sync();
    } finally {
      file.close();
    }
    disk.rename(temporary, path);
  } catch (error) {
    removeQuietly(disk, temporary);
    throw error;
  }
  disk.syncDirectory(dirname(path));
}

/**
 * Removes a temporary file after a failed write. Its own error is dropped, so that the caller sees
 * why the write failed.
 */
function removeQuietly(disk: Disk, path: string): void {
  try {
    disk.remove(path);
  } catch {
    // The disk accepts no change any more; the first error is the one to report.
  }
}

/** All bytes of a file, in memory that the caller owns. */
export function readWhole(disk: Disk, path: string): Uint8Array {
  const file = disk.open(path, "read");
  try {
    const bytes = new Uint8Array(file.size());
    return bytes.subarray(0, file.read(bytes, 0));
  } finally {
    file.close();
  }
}

/**
 * Runs `body`. An error of the disk becomes a StoreFailedError that names the attempted action.
 */
export function onDisk<Result>(action: string, path: string, body: () => Result): Result {
  try {
    return body();
  } catch (error) {
    if (diskCode(error) === undefined) throw error;
    throw new StoreFailedError(action, path, { cause: error });
  }
}

// Durable writes, which survive a power cut: directories, whole files and output files; and the
// check of file names that come from other files. Maps the disk's errors to error classes.

import { dirname } from "node:path";
import { InputUnusableError, StoreFailedError } from "../../src/errors/errors.ts";
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

/** Bytes of a file. */
export function sizeOf(disk: Disk, path: string): number {
  const file = disk.open(path, "read");
  try {
    return file.size();
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

/**
 * Puts a file at `path`, whole or not at all. Returns its size in bytes.
 * @throws InputUnusableError where the file cannot be written
 */
export async function writeWhole(
  disk: Disk,
  path: string,
  body: (file: DiskFile) => Promise<void>,
): Promise<number> {
  const temporary = `${path}.${disk.writer}${temporarySuffix}`;
  try {
    const file = disk.open(temporary, "write");
    let bytes = 0;
    try {
      await body(file);
      file.sync();
      bytes = file.size();
    } finally {
      file.close();
    }
    disk.rename(temporary, path);
    disk.syncDirectory(dirname(path));
    return bytes;
  } catch (error) {
    disk.remove(temporary);
    if (diskCode(error) === undefined) throw error;
    // Leaves out the name of the system call and the temporary file name.
    const why = String(error instanceof Error ? error.message : error).replace(/, \w+ '.*$/, "");
    throw new InputUnusableError(path, `Cannot write ${path}: ${why}`, { cause: error });
  }
}

/**
 * Whether a name is a plain file name: no separators, and neither `.` nor `..`. A name of an
 * untrusted file, as `../x`, would otherwise reach a file outside its directory.
 */
export function isFileName(name: string): boolean {
  return /^[^/\\\0]{1,255}$/.test(name) && name !== "." && name !== "..";
}

/** Whether a relative path stays below its directory: `2026-01-01/part-0.parquet`. */
export function isPathBelow(path: string): boolean {
  return path.split("/").every(isFileName);
}

/** The message of a schema for a name that `isFileName` rejects. */
export const noFileName = "expected the name of a file, and no path";

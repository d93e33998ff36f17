// Writes an output file atomically: it is renamed to its name once all of it is on disk.

import { dirname } from "node:path";
import { InputUnusableError } from "../../src/errors/errors.ts";
import type { Disk, DiskFile } from "../../src/ports/disk.ts";
import { diskCode } from "../../src/ports/disk-refusals.ts";
import { temporarySuffix } from "./durable-files.ts";

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

// Open files that many reads share, so that reading thousands of parts of a file opens it once.
//
// Invariants
//   H1. A file in use stays open. At most `filesMax` others are open.

import type { Disk, DiskFile } from "../../src/ports/disk.ts";

/** A file that is open for reading. */
export type ReadFile = Pick<DiskFile, "path" | "size" | "read" | "readLater" | "close">;

/** Opens files for reading. */
export interface FileSource {
  /** Undefined: there is no such file. Throws the disk's errors. */
  open(path: string): ReadFile | undefined;
}

/** Lends files that are open for reading. */
export interface HeldFiles extends FileSource {
  /** Ends one use of a file. */
  release(file: ReadFile): void;
  /** Closes all files. */
  close(): void;
}

/** Most unused files that stay open: more than the 65 files of 64 increments on one baseline. */
const defaultFilesMax = 80;

export function filesOf(disk: Disk): FileSource {
  return { open: (path) => (disk.exists(path) ? disk.open(path, "read") : undefined) };
}

/** Keeps files open until `close`. */
export function holdFiles(source: FileSource, filesMax: number = defaultFilesMax): HeldFiles {
  const held = new Map<string, { readonly file: ReadFile; users: number }>();
  const openNow = (path: string) => {
    const file = source.open(path);
    return file && { file, users: 0 };
  };
  return {
    open(path) {
      const found = held.get(path) ?? openNow(path);
      if (found === undefined) return undefined;
      found.users++;
      held.delete(path);
      held.set(path, found); // The latest use comes last.
      return found.file;
    },
    release({ path }) {
      const found = held.get(path);
      if (found !== undefined) found.users--;
      for (const [other, { file, users }] of held) {
        if (held.size <= filesMax) break; // H1
        if (users > 0) continue;
        held.delete(other);
        file.close();
      }
    },
    close() {
      for (const { file } of held.values()) file.close();
      held.clear();
    },
  };
}

/** Opens the file for each use, and closes it after it. */
export function openEach(source: FileSource): HeldFiles {
  return {
    open: (path) => source.open(path),
    release: (file) => file.close(),
    close: () => undefined,
  };
}

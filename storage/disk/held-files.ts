// Open files that many reads share, so that reading thousands of parts of a file opens it once.
//
// Invariants
//   H1. A file in use stays open. At most `filesMax` others are open.

import type { Disk, DiskFile } from "../../src/ports/disk.ts";

/** Lends files that are open for reading. */
export interface HeldFiles {
  /** Opens the file, or lends it again; undefined: there is none. Throws the disk's errors. */
  open(path: string): DiskFile | undefined;
  /** Ends one use of a file. */
  release(file: DiskFile): void;
  /** Closes all files. */
  close(): void;
}

/** Most open files that nobody uses: above 64 increments on one baseline, read in step. */
const defaultFilesMax = 80;

/** Keeps files open until `close`. */
export function holdFiles(disk: Disk, filesMax: number = defaultFilesMax): HeldFiles {
  const held = new Map<string, { readonly file: DiskFile; users: number }>();
  return {
    open(path) {
      const found = held.get(path) ?? openNow(disk, path);
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
export function openEach({ disk }: { readonly disk: Disk }): HeldFiles {
  return {
    open: (path) => openNow(disk, path)?.file,
    release: (file) => file.close(),
    close: () => undefined,
  };
}

function openNow(disk: Disk, path: string) {
  return disk.exists(path) ? { file: disk.open(path, "read"), users: 0 } : undefined;
}

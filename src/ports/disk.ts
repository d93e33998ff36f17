// The disk as an argument: the few calls of a file system that a checkpoint store and a binary
// cache need. All calls are synchronous and block the calling thread, except
// `synced` and `readLater`.

import {
  closeSync,
  constants,
  existsSync,
  fstatSync,
  fsync,
  fsyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  read,
  readdirSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeSync,
} from "node:fs";
import { dirname } from "node:path";
import { promisify } from "node:util";
import { isWriterGone, thisBoot, thisWriter } from "./disk-writer.ts";

/** An open file. Offsets and lengths are bytes. */
export interface DiskFile {
  readonly path: string;
  /** Writes all of `bytes` at `offset`. */
  write(bytes: Uint8Array, offset: number): void;
  /** Reads into `bytes` from `offset`. Returns the number of bytes read. */
  read(bytes: Uint8Array, offset: number): number;
  /** As `read`, without blocking the thread. `bytes` are undefined until then. */
  readLater(bytes: Uint8Array, offset: number): Promise<number>;
  /** Length of the file. */
  size(): number;
  truncate(size: number): void;
  /** Returns once all writes survive a power cut. */
  sync(): void;
  /** As `sync`, without blocking the thread. Writes made during the call need not survive. */
  synced(): Promise<void>;
  close(): void;
}

/**
 * `exclusive` fails with code EEXIST where the file exists: the fence of law 3 needs it. `write`
 * creates or truncates. `update` opens an existing file for reading and writing.
 */
export type OpenMode = "read" | "write" | "exclusive" | "update";

export interface Disk {
  /** Unique among concurrent writers; for names of temporary files. */
  readonly writer: string;
  /**
   * Names the time since the machine was started: as long as it is the same, what processes wrote
   * is there, synced or not. Undefined where nobody can tell.
   */
  readonly boot: string | undefined;
  /** Whether the writer of that name has ended; false where nobody can tell. */
  isGone(writer: string): boolean;
  open(path: string, mode: OpenMode): DiskFile;
  exists(path: string): boolean;
  /** Names in a directory, sorted; empty where the directory does not exist. */
  list(directory: string): string[];
  /** Makes a directory and its parents. */
  makeDirectory(path: string): void;
  /** Atomically renames `from` to `to`. Durable after `syncDirectory` of the parent. */
  rename(from: string, to: string): void;
  /** Removes a file or a whole directory; does nothing where it does not exist. */
  remove(path: string): void;
  /** Returns once the names in a directory survive a power cut. */
  syncDirectory(path: string): void;
  /** Milliseconds since 1970 when a file was last written or touched. */
  modifiedMs(path: string): number;
  /** Marks a file as modified now. */
  touch(path: string): void;
}

const fsyncLater = promisify(fsync);
const readSome = promisify(read);

// Without blocking: a pipe would keep whoever opens it for reading waiting.
const flags = {
  read: constants.O_RDONLY | (constants.O_NONBLOCK ?? 0),
  write: "w+",
  exclusive: "wx+",
  update: "r+",
} as const;

/** The machine's own file system. Errors are Node's, with their `code`. */
export const realDisk: Disk = {
  writer: thisWriter(),
  boot: thisBoot(),
  isGone: isWriterGone,
  open: (path, mode) => openReal(path, flags[mode], mode === "read"),
  exists: (path) => existsSync(path),
  list: (directory) => (existsSync(directory) ? readdirSync(directory).sort() : []),
  makeDirectory: makeDirectories,
  rename: (from, to) => renameSync(from, to),
  remove: (path) => rmSync(path, { recursive: true, force: true }),
  syncDirectory(path) {
    const descriptor = openSync(path, "r");
    try {
      fsyncSync(descriptor);
    } finally {
      closeSync(descriptor);
    }
  },
  modifiedMs: (path) => statSync(path).mtimeMs,
  touch(path) {
    const now = new Date();
    utimesSync(path, now, now);
  },
};

/** A device has no end, and a directory no bytes. @throws an error with the code EINVAL */
function checkRegular(descriptor: number, path: string): void {
  if (fstatSync(descriptor).isFile()) return;
  closeSync(descriptor);
  const about = { code: "EINVAL", syscall: "open", path };
  throw Object.assign(new Error(`EINVAL: no regular file, open '${path}'`), about);
}

function openReal(path: string, flag: string | number, isRead: boolean): DiskFile {
  const descriptor = openSync(path, flag);
  if (isRead) checkRegular(descriptor, path);
  return {
    path,
    write(bytes, offset) {
      let done = 0;
      while (done < bytes.length) {
        done += writeSync(descriptor, bytes, done, bytes.length - done, offset + done);
      }
    },
    read(bytes, offset) {
      let done = 0;
      while (done < bytes.length) {
        const count = readSync(descriptor, bytes, done, bytes.length - done, offset + done);
        if (count === 0) break;
        done += count;
      }
      return done;
    },
    async readLater(bytes, offset) {
      let done = 0;
      while (done < bytes.length) {
        const rest = bytes.length - done;
        const { bytesRead } = await readSome(descriptor, bytes, done, rest, offset + done);
        if (bytesRead === 0) break;
        done += bytesRead;
      }
      return done;
    },
    size: () => fstatSync(descriptor).size,
    truncate: (size) => ftruncateSync(descriptor, size),
    sync: () => fsyncSync(descriptor),
    synced: () => fsyncLater(descriptor),
    close: () => closeSync(descriptor),
  };
}

/**
 * Makes a directory and its parents. Node's own way of doing so never returns where the system
 * refuses a directory whose parent is there, as in /proc.
 */
export function makeDirectories(path: string): void {
  try {
    mkdirSync(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EEXIST" && statSync(path).isDirectory()) return;
    const parent = dirname(path);
    if (code !== "ENOENT" || parent === path || existsSync(parent)) throw error;
    makeDirectories(parent);
    makeDirectories(path);
  }
}

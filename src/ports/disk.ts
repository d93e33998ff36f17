// The disk port: the few calls of a file system that a checkpoint store and a binary cache need.
// All calls are synchronous and block the calling thread, except `synced` and `readLater`.

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
import type { BlockingObjectStore } from "./object-store.ts";

/** An open file. Offsets and lengths are bytes. */
export interface DiskFile {
  readonly path: string;
  /** Writes all of `bytes` at `offset`. */
  write(bytes: Uint8Array, offset: number): void;
  /** Reads into `bytes` from `offset`. Returns the number of bytes read. */
  read(bytes: Uint8Array, offset: number): number;
  /** `read` without blocking the thread. `bytes` are undefined until the promise resolves. */
  readLater(bytes: Uint8Array, offset: number): Promise<number>;
  /** Length of the file. */
  size(): number;
  truncate(size: number): void;
  /** Returns once all writes survive a power failure. */
  sync(): void;
  /** `sync` without blocking the thread. Writes made during the call need not survive. */
  synced(): Promise<void>;
  close(): void;
}

/**
 * `exclusive` creates a file, and fails with code EEXIST if it exists: the fence of law 3 needs
 * this. `write` creates or truncates. `update` opens an existing file for reading and writing.
 */
export type OpenMode = "read" | "write" | "exclusive" | "update";

export interface Disk {
  /** A name that is unique among concurrent writers, for names of temporary files. */
  readonly writer: string;
  /**
   * The id of the machine's boot: while it is unchanged, all writes of processes are visible,
   * synced or not. Undefined if unknown.
   */
  readonly boot: string | undefined;
  /** Whether the writer with this name has ended; false if unknown. */
  isGone(writer: string): boolean;
  open(path: string, mode: OpenMode): DiskFile;
  exists(path: string): boolean;
  /** Names in a directory, sorted; empty if the directory does not exist. */
  list(directory: string): string[];
  /** Creates a directory and its parents. */
  makeDirectory(path: string): void;
  /** Atomically renames `from` to `to`. Durable after `syncDirectory` of the parent. */
  rename(from: string, to: string): void;
  /** Removes a file or a directory with its contents; does nothing if it does not exist. */
  remove(path: string): void;
  /** Returns once the names in a directory survive a power failure. */
  syncDirectory(path: string): void;
  /** When a file was last written or touched, in milliseconds since 1970. */
  modifiedMs(path: string): number;
  /** Sets the modification time of a file to now. */
  touch(path: string): void;
  /** Opens an object store of a simulated machine; left out: stores are on the network. */
  readonly objects?: (address: string) => BlockingObjectStore;
}

const fsyncLater = promisify(fsync);
const readSome = promisify(read);

// O_NONBLOCK, as opening a named pipe for reading would otherwise block.
const flags = {
  read: constants.O_RDONLY | (constants.O_NONBLOCK ?? 0),
  write: "w+",
  exclusive: "wx+",
  update: "r+",
} as const;

/** The file system of the machine. Errors are Node's, with their `code`. */
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

/** Rejects devices, pipes and directories. @throws an error with the code EINVAL */
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
 * Creates a directory and its parents. Node's recursive mkdir never returns if the system refuses a
 * directory although its parent exists, as in /proc.
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

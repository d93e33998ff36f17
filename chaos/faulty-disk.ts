// A disk that lies, fills up, tears and slows down, over one that does not: for the checkpoint
// directory alone, and only once a fault was armed.

import { dirname } from "node:path";
import type { Disk, DiskFile } from "../src/disk.ts";
import { standStill } from "./standing-still.ts";

/** What may go wrong with a disk. */
export type DiskTrouble = "disk-full" | "disk-slow" | "torn-write" | "flipped-bit" | "lost-sync";

export interface ArmedTrouble {
  readonly what: DiskTrouble;
  /** Operations that it lasts; a tear and a flip are one write, a lost sync is those of one file. */
  readonly operations: number;
  /** Called once, with what it did. */
  readonly over: (hits: number) => void;
  /** Ends whoever writes, in the middle of it, as a crash would; may come back in tests. */
  readonly die: () => void;
}

export interface FaultyDisk extends Disk {
  /** The next operations in `directory` meet this. */
  arm(trouble: ArmedTrouble): void;
  /** The power fails: what was written and not synced, as the disk had said, is gone. */
  powerFails(): void;
  /** How many troubles are not over yet. */
  readonly alive: number;
}

/** How long an operation of a slow disk takes. */
const slowMs = 20;

interface Alive extends ArmedTrouble {
  hits: number;
  /** Files of which a sync was lost: what a power cut takes from them. */
  readonly lost: Set<string>;
}

/** `onOperation` hears of every change in `directory` before it is made. */
export function faultyDisk(
  disk: Disk,
  options: { readonly directory: string; readonly onOperation?: (path: string) => void },
): FaultyDisk {
  const { directory, onOperation = () => {} } = options;
  let alive: Alive[] = [];

  const count = (one: Alive) => {
    one.hits++;
    if (one.hits < one.operations) return;
    alive = alive.filter((other) => other !== one);
    one.over(one.hits);
  };
  const take = (what: DiskTrouble) => alive.find((one) => one.what === what);

  /** A change of the disk; `fills`: it needs room. */
  const change = (path: string, fills: boolean) => {
    if (!path.startsWith(directory)) return;
    onOperation(path);
    const slow = take("disk-slow");
    if (slow !== undefined) {
      standStill(slowMs);
      count(slow);
    }
    const full = fills ? take("disk-full") : undefined;
    if (full !== undefined) {
      count(full);
      throw refusal(path);
    }
  };

  const write = (file: DiskFile, bytes: Uint8Array, offset: number) => {
    change(file.path, true);
    const isOurs = file.path.startsWith(directory) && bytes.length > 0;
    const torn = isOurs ? take("torn-write") : undefined;
    if (torn !== undefined) {
      file.write(bytes.subarray(0, Math.floor(bytes.length / 2)), offset);
      count(torn);
      torn.die();
      return;
    }
    const flipped = isOurs ? take("flipped-bit") : undefined;
    if (flipped === undefined) return file.write(bytes, offset);
    const wrong = bytes.slice();
    const at = Math.floor(wrong.length / 2);
    wrong[at] = (wrong[at] ?? 0) ^ 1;
    count(flipped);
    file.write(wrong, offset);
  };

  const sync = (file: DiskFile) => {
    change(file.path, false);
    const lying = file.path.startsWith(directory) ? take("lost-sync") : undefined;
    if (lying === undefined) file.sync();
    else lying.lost.add(file.path);
  };

  const powerFails = () => {
    const lying = take("lost-sync");
    if (lying === undefined || lying.lost.size === 0) return;
    for (const file of lying.lost) cutShort(disk, file);
    lying.hits = lying.operations;
    count(lying);
    lying.die();
  };

  return {
    ...disk,
    open(path, mode) {
      if (mode !== "read") change(path, mode !== "update");
      const file = disk.open(path, mode);
      return {
        path: file.path,
        write: (bytes, offset) => write(file, bytes, offset),
        read: (bytes, offset) => file.read(bytes, offset),
        size: () => file.size(),
        truncate: (size) => file.truncate(size),
        sync: () => sync(file),
        close: () => file.close(),
      };
    },
    makeDirectory(path) {
      change(path, true);
      disk.makeDirectory(path);
    },
    rename(from, to) {
      change(to, false);
      disk.rename(from, to);
      for (const { lost } of alive) if (lost.delete(from)) lost.add(to);
    },
    remove(path) {
      change(path, false);
      disk.remove(path);
    },
    syncDirectory(path) {
      change(path, false);
      disk.syncDirectory(path);
      // The name is durable, the bytes are not: what a power cut makes of a lost sync.
      const lost = [...(take("lost-sync")?.lost ?? [])];
      if (lost.some((file) => dirname(file) === path)) powerFails();
    },
    powerFails,
    arm(trouble) {
      alive.push({ ...trouble, hits: 0, lost: new Set() });
    },
    get alive() {
      return alive.length;
    },
  };
}

function cutShort(disk: Disk, path: string): void {
  if (!disk.exists(path)) return;
  const file = disk.open(path, "update");
  try {
    file.truncate(0);
    file.sync();
  } finally {
    file.close();
  }
}

function refusal(path: string): NodeJS.ErrnoException {
  const error = new Error(`ENOSPC: no space left on device, write '${path}'`);
  return Object.assign(error, { code: "ENOSPC", syscall: "write", path });
}

// A disk with injected faults, over a sound disk: lost syncs, flipped bits, torn writes, full and
// slow. Faults affect only the checkpoint directory, and only while armed.

import { dirname } from "node:path";
import type { Disk, DiskFile, OpenMode } from "../../src/ports/disk.ts";

/** Kinds of disk faults. */
export type DiskTrouble = "disk-full" | "disk-slow" | "torn-write" | "flipped-bit" | "lost-sync";

export interface ArmedTrouble {
  readonly what: DiskTrouble;
  /** Number of affected operations; 1 for a torn write, a flipped bit and a lost sync. */
  readonly operations: number;
  /** Called once at the end of the fault, with the number of affected operations. */
  readonly over: (hits: number) => void;
  /** Kills the writer in the middle of a write, like a crash; in tests it may return. */
  readonly die: () => void;
}

/** Duration of an operation on a slow disk. */
const slowMs = 20;

interface Alive extends ArmedTrouble {
  hits: number;
  /** Files with a lost sync, whose bytes a power failure removes. */
  readonly lost: Set<string>;
}

export class FaultyDisk implements Disk {
  readonly #disk: Disk;
  readonly #directory: string;
  readonly #onOperation: (path: string) => void;
  #alive: Alive[] = [];

  /** `onOperation` is called before every change in `directory`. */
  constructor(
    disk: Disk,
    options: { readonly directory: string; readonly onOperation?: (path: string) => void },
  ) {
    this.#disk = disk;
    this.#directory = options.directory;
    this.#onOperation = options.onOperation ?? (() => {});
  }

  get writer(): string {
    return this.#disk.writer;
  }

  /** Arms a fault for the next operations in the directory. */
  arm(trouble: ArmedTrouble): void {
    this.#alive.push({ ...trouble, hits: 0, lost: new Set() });
  }

  /** Simulates a power failure: removes the bytes whose sync was lost. */
  powerFails(): void {
    const lying = this.#find("lost-sync");
    if (lying === undefined || lying.lost.size === 0) return;
    for (const file of lying.lost) cutShort(this.#disk, file);
    this.#hit(lying, lying.operations);
    lying.die();
  }

  open(path: string, mode: OpenMode): DiskFile {
    if (mode !== "read") this.#change(path, mode !== "update");
    const file = this.#disk.open(path, mode);
    return {
      path: file.path,
      write: (bytes, offset) => this.#write(file, bytes, offset),
      read: (bytes, offset) => file.read(bytes, offset),
      readLater: (bytes, offset) => file.readLater(bytes, offset),
      size: () => file.size(),
      truncate: (size) => file.truncate(size),
      sync: () => this.#sync(file),
      synced: async () => this.#sync(file),
      close: () => file.close(),
    };
  }

  get boot(): string | undefined {
    return this.#disk.boot;
  }

  isGone(writer: string): boolean {
    return this.#disk.isGone(writer);
  }

  modifiedMs(path: string): number {
    return this.#disk.modifiedMs(path);
  }

  touch(path: string): void {
    this.#disk.touch(path);
  }

  exists(path: string): boolean {
    return this.#disk.exists(path);
  }

  list(directory: string): string[] {
    return this.#disk.list(directory);
  }

  makeDirectory(path: string): void {
    this.#change(path, true);
    this.#disk.makeDirectory(path);
  }

  rename(from: string, to: string): void {
    this.#change(to, false);
    this.#disk.rename(from, to);
    for (const { lost } of this.#alive) if (lost.delete(from)) lost.add(to);
  }

  remove(path: string): void {
    this.#change(path, false);
    this.#disk.remove(path);
  }

  syncDirectory(path: string): void {
    this.#change(path, false);
    this.#disk.syncDirectory(path);
    // The name is durable but the bytes are not: the state after a power failure with a lost sync.
    const lost = [...(this.#find("lost-sync")?.lost ?? [])];
    if (lost.some((file) => dirname(file) === path)) this.powerFails();
  }

  #isOurs(path: string): boolean {
    return path.startsWith(this.#directory);
  }

  #find(what: DiskTrouble): Alive | undefined {
    return this.#alive.find((one) => one.what === what);
  }

  #hit(one: Alive, times = 1): void {
    one.hits += times;
    if (one.hits < one.operations) return;
    this.#alive = this.#alive.filter((other) => other !== one);
    one.over(one.hits);
  }

  /** Injects slow and full disk faults into a change. `fills`: the change needs room. */
  #change(path: string, fills: boolean): void {
    if (!this.#isOurs(path)) return;
    this.#onOperation(path);
    const slow = this.#find("disk-slow");
    if (slow !== undefined) {
      hang(slowMs);
      this.#hit(slow);
    }
    const full = fills ? this.#find("disk-full") : undefined;
    if (full === undefined) return;
    this.#hit(full);
    throw refusal(path);
  }

  #write(file: DiskFile, bytes: Uint8Array, offset: number): void {
    this.#change(file.path, true);
    const isOurs = this.#isOurs(file.path) && bytes.length > 0;
    const torn = isOurs ? this.#find("torn-write") : undefined;
    if (torn !== undefined) {
      file.write(bytes.subarray(0, Math.floor(bytes.length / 2)), offset);
      this.#hit(torn);
      torn.die();
      return;
    }
    const flipped = isOurs ? this.#find("flipped-bit") : undefined;
    if (flipped === undefined) {
      file.write(bytes, offset);
      return;
    }
    const wrong = bytes.slice();
    const at = Math.floor(wrong.length / 2);
    wrong[at] = (wrong[at] ?? 0) ^ 1;
    this.#hit(flipped);
    file.write(wrong, offset);
  }

  #sync(file: DiskFile): void {
    this.#change(file.path, false);
    const lying = this.#isOurs(file.path) ? this.#find("lost-sync") : undefined;
    if (lying === undefined) file.sync();
    else lying.lost.add(file.path);
  }
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

/** Blocks the calling thread. Ringing its doorbell does not wake it. */
export function hang(forMs: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, forMs);
}

/** Fills the heap of this thread until V8 terminates it. Never returns. */
export function exhaustMemory(): never {
  const kept: unknown[] = [];
  for (;;) kept.push(new Array(100_000).fill(kept.length));
}

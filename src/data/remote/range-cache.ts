// A disk cache of the byte ranges that a host has read of remote files. All readers of the host
// share it, so that later epochs and replaced readers send no requests. Threads and processes use
// it without locks.
//
//   CACHE/ranges/00 … 3f/HASH-BYTES.range    64 sets; the hash names file, tag and range
//   file                                     CRC-32 of all after it u32 · magic u32 · the bytes
//
// Each set may take 1/64 of the limit and is cleaned up separately, without a scan of the cache.
//
// Invariants
//   K1. Bytes are returned as they were fetched: a torn or damaged file is removed.
//   K2. With up to 16 writing threads, no set exceeds its share: a thread that has added 1/64 of it
//       cleans the set up, to three quarters of the share.
//   K3. A disk error never ends a run; it only costs a request to the server.

import { createHash } from "node:crypto";
import { statfsSync } from "node:fs";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { type Disk, realDisk } from "../../ports/disk.ts";
import { attempt, type CacheFile, freeName, leftoversIn } from "../cache/cache-directory.ts";
import type { WebFile } from "./web-ranges.ts";

/** The directory of the ranges, in that of the caches. */
const rangesDirectory = "ranges";
const sets = 64;
const rangeName = /-(\d+)\.range$/;
const magic = 0x4e52534f; // "OSRN"
const headBytes = 8;

/** Share of the free disk that the ranges may take, if the job sets no limit. */
const freeShare = 1 / 4;
/** K2. Parts of a set's share: added by a thread before a clean-up, and left by a clean-up. */
const addedShare = 1 / 64;
const keptShare = 3 / 4;

export interface RangeCacheOptions {
  /** The directory of the caches. */
  readonly directory: string;
  /** Limit in bytes; undefined: a quarter of the sum of free disk and present ranges. */
  readonly bytesMax: number | undefined;
  readonly disk?: Disk;
  /** Free bytes of the disk. */
  readonly freeBytes?: () => number;
}

export class RangeCache {
  readonly #directory: string;
  readonly #bytesMax: number | undefined;
  readonly #disk: Disk;
  readonly #freeBytes: () => number;
  /** Bytes that this thread has added to a set since its last clean-up, and the share then. */
  readonly #looked = new Map<string, { added: number; readonly share: number }>();

  constructor({ directory, bytesMax, disk = realDisk, freeBytes }: RangeCacheOptions) {
    this.#directory = directory;
    this.#bytesMax = bytesMax;
    this.#disk = disk;
    this.#freeBytes = freeBytes ?? (() => freeOf(directory));
  }

  /** The path of a range, which may not exist; undefined: the file has no tag for its version. */
  pathOf({ path, tag, size }: Pick<WebFile, "path" | "tag" | "size">, start: number, end: number) {
    if (tag === "") return undefined;
    const text = JSON.stringify([path, tag, size, start, end]);
    const hash = createHash("sha256").update(text).digest("hex").slice(0, 32);
    const set = Number.parseInt(hash.slice(0, 2), 16) % sets;
    return join(setAt(this.#directory, set), `${hash}-${end - start}.range`);
  }

  /** Fills `bytes` with the range at `path`. Returns false if the cache does not have it. */
  read(path: string, bytes: Uint8Array): boolean {
    const disk = this.#disk;
    const found = attempt(() => {
      if (!disk.exists(path)) return false;
      const file = disk.open(path, "read");
      const head = new Uint8Array(headBytes);
      try {
        const read = file.read(head, 0) + file.read(bytes, headBytes);
        const isWhole = read === headBytes + bytes.length;
        if (isWhole && head.every((byte, i) => byte === headOf(bytes)[i])) {
          disk.touch(path);
          return true;
        }
      } finally {
        file.close();
      }
      disk.remove(path); // K1
      return false;
    });
    return found === true; // K3
  }

  /** Stores the bytes of a range, if they fit into its set. */
  write(path: string, bytes: Uint8Array): void {
    const [disk, size] = [this.#disk, headBytes + bytes.length];
    attempt(() => {
      const set = join(path, "..");
      const looked = this.#looked.get(set);
      const isDue = looked === undefined || looked.added + size > addedShare * looked.share;
      const { share, ...now } = isDue ? this.#tidy(set, size) : looked;
      if (size > keptShare * share) return;
      const building = freeName(path, disk);
      const file = disk.open(building, "write");
      try {
        file.write(headOf(bytes), 0);
        file.write(bytes, headBytes);
      } catch (error) {
        attempt(() => disk.remove(building));
        throw error;
      } finally {
        file.close();
      }
      disk.rename(building, path); // Not synced: K1.
      this.#looked.set(set, { share, added: now.added + size });
    }); // K3
  }

  /** K2. Removes the least recently used ranges of a set, until `room` bytes fit. */
  #tidy(set: string, room: number): { readonly share: number; readonly added: number } {
    const disk = this.#disk;
    disk.makeDirectory(set);
    const files = rangesOf(set, disk).sort((a, b) => a.usedMs - b.usedMs);
    let bytes = files.reduce((sum, one) => sum + one.bytes, 0);
    const share = (this.#bytesMax ?? freeShare * (this.#freeBytes() + sets * bytes)) / sets;
    for (const one of files) {
      if (bytes + room <= keptShare * share) break;
      disk.remove(one.path);
      bytes -= one.bytes;
    }
    const nowMs = files.at(-1)?.usedMs ?? 0;
    for (const { path } of leftoversIn(set, disk, nowMs)) disk.remove(path);
    return { share, added: 0 };
  }
}

/** The beginning of a file: CRC-32 and magic. */
function headOf(bytes: Uint8Array): Uint8Array {
  const head = new Uint8Array(headBytes);
  const view = new DataView(head.buffer);
  view.setUint32(4, magic, true);
  view.setUint32(0, crc32(bytes, crc32(head.subarray(4))), true);
  return head;
}

function freeOf(directory: string): number {
  const { bavail, bsize } = statfsSync(directory);
  return bavail * bsize;
}

function setAt(directory: string, set: number): string {
  return join(directory, rangesDirectory, set.toString(16).padStart(2, "0"));
}

/** The ranges of a set, with their sizes on the disk. */
function rangesOf(set: string, disk: Disk): CacheFile[] {
  return disk.list(set).flatMap((name) => {
    const [, bytes] = rangeName.exec(name) ?? [];
    if (bytes === undefined) return [];
    const path = join(set, name);
    const usedMs = attempt(() => disk.modifiedMs(path));
    return usedMs === undefined ? [] : [{ path, bytes: headBytes + Number(bytes), usedMs }];
  });
}

/** All ranges beside the caches of a directory. */
export function rangesIn(directory: string, disk: Disk): CacheFile[] {
  return Array.from({ length: sets }, (_, set) => {
    return attempt(() => rangesOf(setAt(directory, set), disk)) ?? [];
  }).flat();
}

/** The range caches of this thread; each counts the bytes that the thread adds. */
const ofThread = new Map<string, RangeCache>();

/** The options of data that decide which ranges are kept. */
interface RangeOptions {
  readonly cache: string;
  readonly streamed?: boolean | undefined;
  readonly remoteBytesMax?: number | undefined;
}

/** The range cache; undefined: files are read only once, or the job disables the cache. */
export function rangeCacheOf({
  cache: directory,
  streamed,
  remoteBytesMax: bytesMax,
}: RangeOptions): RangeCache | undefined {
  if (streamed !== true || bytesMax === 0) return undefined;
  const name = `${bytesMax} ${directory}`;
  const known = ofThread.get(name) ?? new RangeCache({ directory, bytesMax });
  ofThread.set(name, known);
  return known;
}

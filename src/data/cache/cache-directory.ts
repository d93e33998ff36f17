// The directory of the binary caches: who uses them, and what is removed from it: what writers that
// are gone have left there, and, where the job has a limit, the caches that no run has used for
// longest.
//
// Several runs, processes and hosts share a directory, and none of them locks anything: a cache
// that is removed too early is made anew, and a reader that has the file open reads on.
//
// Invariants
//   D1. A cache in use is touched every minute; one that was touched within ten minutes is not
//       removed.
//   D2. Times are those of the files themselves: clocks of two machines are not compared.

import { dirname, join } from "node:path";
import type { Disk } from "../../ports/disk.ts";

/** How often readers touch the caches that they read. D1 */
export const touchEveryMs = 60_000;
/** A cache that was touched so recently is in use. D1 */
export const inUseMs = 600_000;
/**
 * An unfinished file that nothing was written to for so long has lost its writer, whoever that
 * was: a writer writes every 32 samples.
 */
export const abandonedMs = 3_600_000;

/** The end of a cache's name. */
export const cacheSuffix = ".cache";
const buildingName = /\.cache\.building-(.+)-\d+$/;
const setAsideSuffix = ".damaged";

/** The name of the file in which a writer makes the cache `path`; `build` counts its attempts. */
export function buildingNameOf(path: string, writer: string, build: number): string {
  return `${path}.building-${writer}-${build}`;
}

/** The name of a damaged cache that a reader has set aside. */
export function setAsideNameOf(path: string): string {
  return `${path}${setAsideSuffix}`;
}

/** A file of the directory, as far as its name and its times tell. */
export interface CacheFile {
  readonly path: string;
  readonly bytes: number;
  readonly usedMs: number;
}

/** The complete caches of a directory, those that were not used for longest first. */
export function cachesIn(directory: string, disk: Disk): CacheFile[] {
  const names = disk.list(directory).filter((name) => name.endsWith(cacheSuffix));
  return filesOf(directory, names, disk).sort((a, b) => a.usedMs - b.usedMs);
}

/**
 * What writers that are gone have left in a directory, and damaged caches that were made anew or
 * that nobody has asked for since.
 */
export function leftoversIn(directory: string, disk: Disk, nowMs: number): CacheFile[] {
  const names = disk.list(directory);
  const unfinished = names.filter((name) => buildingName.test(name));
  const isLeft = ({ path, usedMs }: CacheFile) => {
    const [, writer = ""] = buildingName.exec(path) ?? [];
    return disk.isGone(writer) || nowMs - usedMs > abandonedMs;
  };
  const damaged = filesOf(
    directory,
    names.filter((name) => name.endsWith(`${cacheSuffix}${setAsideSuffix}`)),
    disk,
  ).filter(({ usedMs }) => nowMs - usedMs > abandonedMs);
  return [...filesOf(directory, unfinished, disk).filter(isLeft), ...damaged];
}

/** Says that a run uses the cache now. D1 */
export function markUsed(path: string, disk: Disk): void {
  attempt(() => disk.touch(path));
}

/** Tidies the directory of the cache `path`, which is in use. */
export function tidyBeside(path: string, bytesMax: number | undefined, disk: Disk): void {
  markUsed(path, disk);
  attempt(() => {
    const directory = dirname(path);
    const nowMs = disk.modifiedMs(path); // D2
    for (const left of leftoversIn(directory, disk, nowMs)) disk.remove(left.path);
    if (bytesMax === undefined) return;
    const caches = cachesIn(directory, disk);
    let bytes = caches.reduce((sum, one) => sum + one.bytes, 0);
    for (const cache of caches) {
      if (bytes <= bytesMax) return;
      if (nowMs - cache.usedMs < inUseMs) continue; // D1
      disk.remove(cache.path);
      bytes -= cache.bytes;
    }
  });
}

/** Sizes and times of files; one that another process has just removed is left out. */
function filesOf(directory: string, names: readonly string[], disk: Disk): CacheFile[] {
  return names.flatMap((name) => {
    const path = join(directory, name);
    return attempt(() => [fileAt(path, disk)]) ?? [];
  });
}

function fileAt(path: string, disk: Disk): CacheFile {
  const file = disk.open(path, "read");
  try {
    return { path, bytes: file.size(), usedMs: disk.modifiedMs(path) };
  } finally {
    file.close();
  }
}

/** Runs `work`. A refusal of the disk costs room alone: a run goes on without. */
function attempt<Result>(work: () => Result): Result | undefined {
  try {
    return work();
  } catch (error) {
    if (error instanceof Error && "code" in error) return undefined;
    throw error;
  }
}

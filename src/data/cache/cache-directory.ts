// The directory of the binary caches: marks caches as in use, and removes the files of dead writers
// and, if the job has a size limit, the least recently used caches.
//
// Several runs, processes and hosts share a directory without locks: a cache that is removed too
// early is built again, and a reader that has the file open continues to read it.
//
// Invariants
//   D1. A cache in use is touched every minute; a cache touched within the last ten minutes is not
//       removed.
//   D2. Only modification times of files are compared, never the clocks of two machines.

import { basename, dirname, join } from "node:path";
import type { Disk } from "../../ports/disk.ts";

/** How often readers touch the caches that they read. D1 */
export const touchEveryMs = 60_000;
/** A cache touched within this time is in use. D1 */
export const inUseMs = 600_000;
/**
 * An unfinished file that was not written or touched for this long is abandoned, whichever host its
 * writer ran on. The writer of a cache writes whenever its buffer of 256 KiB is full. The writer of
 * an index writes only at its end, and touches the file until then.
 */
export const abandonedMs = 3_600_000;

/** File name suffix of a complete cache. */
export const cacheSuffix = ".cache";
/** File name suffix of a file's index, and the subdirectory of such indexes. */
export const fileSuffix = ".file";
export const filesDirectory = "file-indexes";
const buildingName = /\.(?:cache|file|range)\.building-(.+)-\d+$/;
const setAsideSuffix = ".damaged";

/**
 * The temporary name under which a writer builds the cache `path`; `build` counts the writer's
 * builds.
 */
export function buildingNameOf(path: string, writer: string, build: number): string {
  return `${path}.building-${writer}-${build}`;
}

/**
 * An unused temporary name. This writer may have a build of the same cache in progress, or have
 * left a file of an earlier one.
 */
export function freeName(path: string, disk: Disk): string {
  for (let build = 0; ; build++) {
    const name = buildingNameOf(path, disk.writer, build);
    if (!disk.exists(name)) return name;
  }
}

/** The name to which a reader renames a damaged cache. */
export function setAsideNameOf(path: string): string {
  return `${path}${setAsideSuffix}`;
}

/** Path, size and time of last use of a file in the directory. */
export interface CacheFile {
  readonly path: string;
  readonly bytes: number;
  readonly usedMs: number;
}

/** The complete caches of a directory, least recently used first. */
export function cachesIn(directory: string, disk: Disk): CacheFile[] {
  const names = disk.list(directory).filter((name) => name.endsWith(cacheSuffix));
  return filesOf(directory, names, disk).sort((a, b) => a.usedMs - b.usedMs);
}

/** The indexes of single files in a cache directory. */
export function fileIndexesIn(directory: string, disk: Disk): CacheFile[] {
  const own = join(directory, filesDirectory);
  const names = attempt(() => disk.list(own)) ?? []; // Most directories have none.
  return filesOf(
    own,
    names.filter((name) => name.endsWith(fileSuffix)),
    disk,
  );
}

/**
 * Unfinished files of dead writers, and damaged caches that were set aside more than `abandonedMs`
 * ago.
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
    names.filter((name) => name.endsWith(setAsideSuffix)),
    disk,
  ).filter(({ usedMs }) => nowMs - usedMs > abandonedMs);
  return [...filesOf(directory, unfinished, disk).filter(isLeft), ...damaged];
}

/** Touches a cache to mark it as in use. D1 */
export function markUsed(path: string, disk: Disk): void {
  attempt(() => disk.touch(path));
}

/** Removes the early index at `early`, unless a run uses it. `index`: the complete index. */
export function removeUnused(early: string, index: string, disk: Disk): void {
  attempt(() => {
    if (!disk.exists(early)) return;
    markUsed(index, disk);
    if (disk.modifiedMs(index) - disk.modifiedMs(early) >= inUseMs) disk.remove(early); // D2
  });
}

/**
 * Removes leftovers beside the cache `path`, which is in use, and caches and indexes of files
 * beyond `bytesMax`. `usedIn`: the names of the files' indexes that some indexes refer to.
 */
export function tidyBeside(
  path: string,
  bytesMax: number | undefined,
  disk: Disk,
  usedIn: (caches: readonly string[]) => readonly string[] = () => [],
): void {
  markUsed(path, disk);
  attempt(() => {
    const directory = dirname(path);
    const nowMs = disk.modifiedMs(path); // D2
    const ofFiles = join(directory, filesDirectory);
    const left = [directory, ofFiles].flatMap((place) => leftoversIn(place, disk, nowMs));
    for (const one of left) disk.remove(one.path);
    if (bytesMax === undefined) return;
    const caches = cachesIn(directory, disk);
    const indexes = fileIndexesIn(directory, disk);
    let bytes = [...caches, ...indexes].reduce((sum, one) => sum + one.bytes, 0);
    for (const cache of caches) {
      if (bytes <= bytesMax) return;
      if (nowMs - cache.usedMs < inUseMs) continue; // D1
      disk.remove(cache.path);
      bytes -= cache.bytes;
    }
    // Files' indexes that a remaining index refers to are kept; the index of a run is among these.
    const kept = new Set(usedIn(cachesIn(directory, disk).map(({ path: cache }) => cache)));
    for (const one of indexes.sort((a, b) => a.usedMs - b.usedMs)) {
      if (bytes <= bytesMax) return;
      if (kept.has(basename(one.path)) || nowMs - one.usedMs < inUseMs) continue;
      disk.remove(one.path);
      bytes -= one.bytes;
    }
  });
}

/** Sizes and times of files. A file that another process has just removed is left out. */
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

/**
 * Runs `work`, ignoring disk errors: a failed clean-up wastes disk space but must not stop a run.
 */
export function attempt<Result>(work: () => Result): Result | undefined {
  try {
    return work();
  } catch (error) {
    if (error instanceof Error && "code" in error) return undefined;
    throw error;
  }
}

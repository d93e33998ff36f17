// Lists the caches of a directory for the CLI, each with its sources, size and last use, and
// removes the caches that the user chooses.

import { statSync } from "node:fs";
import { basename } from "node:path";
import {
  DataCacheDamagedError,
  InputUnusableError,
  InvalidOptionError,
} from "../../errors/errors.ts";
import { type Disk, realDisk } from "../../ports/disk.ts";
import { isAddress } from "../remote/addresses.ts";
import { rangesIn } from "../remote/range-cache.ts";
import {
  type CacheFile,
  cachesIn,
  fileIndexesIn,
  inUseMs,
  leftoversIn,
} from "./cache-directory.ts";
import { readCacheMeta } from "./cache-facts.ts";
import { onDisk, type SourceFile } from "./cache-format.ts";

/** A source file of a cache, and whether it has changed since the cache was built. */
export interface CachedSource extends SourceFile {
  readonly state: "same" | "changed" | "gone";
}

/** A complete cache, as `osiris cache ls` shows it. */
export interface CacheRecord extends CacheFile {
  readonly name: string;
  /** Whether a run has used it within the last ten minutes. */
  readonly isInUse: boolean;
  readonly samples?: number;
  /** Its source files; empty for generated data. */
  readonly sources: readonly CachedSource[];
  /** Why it is unusable, if it is damaged; its next run builds it again. */
  readonly damage?: string;
}

/** Number and size of files that are too many to be listed. */
export interface FileCount {
  readonly count: number;
  readonly bytes: number;
}

/** The content of a cache directory. */
export interface CacheList {
  readonly directory: string;
  /** Most recently used first. */
  readonly caches: readonly CacheRecord[];
  /** Indexes of single files, to which several of the caches may refer. */
  readonly fileIndexes: FileCount;
  /** Ranges of remote files. */
  readonly ranges: FileCount;
  /** Unfinished caches of dead writers, and damaged caches that were set aside. */
  readonly leftovers: readonly CacheFile[];
}

/**
 * Lists a cache directory, without changing it. `nowMs`: milliseconds since 1970.
 * @throws InputUnusableError if the directory cannot be read
 */
export function listCaches(directory: string, nowMs: number, disk: Disk = realDisk): CacheList {
  try {
    disk.list(directory);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    const message = `Expected ${directory} to be a directory of data caches: ${why}`;
    throw new InputUnusableError(directory, message, { cause });
  }
  const caches = cachesIn(directory, disk).reverse();
  return {
    directory,
    caches: caches.map((file) => recordOf(file, disk, nowMs)),
    fileIndexes: countOf(fileIndexesIn(directory, disk)),
    ranges: countOf(rangesIn(directory, disk)),
    leftovers: leftoversIn(directory, disk, nowMs),
  };
}

function countOf(files: readonly CacheFile[]): FileCount {
  return { count: files.length, bytes: files.reduce((sum, { bytes }) => sum + bytes, 0) };
}

function recordOf(file: CacheFile, disk: Disk, nowMs: number): CacheRecord {
  const isInUse = nowMs - file.usedMs < inUseMs;
  const record = { ...file, name: basename(file.path, ".cache"), isInUse, sources: [] };
  try {
    const { samples, sources = [] } = readCacheMeta(file.path, disk);
    return { ...record, samples, sources: sources.map(sourceNow) };
  } catch (error) {
    if (!(error instanceof DataCacheDamagedError)) throw error;
    return { ...record, damage: error.reason };
  }
}

function sourceNow(source: SourceFile): CachedSource {
  if (isAddress(source.path)) return { ...source, state: "same" }; // Checked when it is read.
  const now = statSync(source.path, { throwIfNoEntry: false });
  if (now === undefined) return { ...source, state: "gone" };
  const isSame = now.size === source.bytes && now.mtimeMs === source.modifiedMs;
  return { ...source, state: isSame ? "same" : "changed" };
}

/** Which caches to remove: by name or prefix, by age, or all. Caches in use are kept. */
export interface CacheChoice {
  /** Only report what would be removed. */
  readonly dryRun?: boolean | undefined;
  readonly names?: readonly string[] | undefined;
  /** Caches that no run has used for at least this time. */
  readonly unusedMs?: number | undefined;
  readonly all?: boolean | undefined;
}

/** Caches that `removeCaches` removed, and those that it kept because a run uses them. */
export interface CacheRemoval {
  readonly removed: readonly CacheFile[];
  readonly inUse: readonly CacheFile[];
  /** Ranges of remote files that were removed. */
  readonly ranges: FileCount;
  /** Total size of the removed files. */
  readonly bytes: number;
}

/**
 * Removes the chosen caches of a fresh list and all leftovers. Also removes indexes of single files
 * that no remaining cache needs, if a chosen cache used them or they are older than the chosen age;
 * and ranges of remote files of that age.
 * @throws InvalidOptionError if a name matches no cache or several, or nothing is chosen
 * @throws StoreFailedError if the disk fails
 */
export function removeCaches(
  { caches, leftovers, directory }: CacheList,
  { names = [], unusedMs, all = false, dryRun = false }: CacheChoice,
  nowMs: number,
  disk: Disk = realDisk,
): CacheRemoval {
  if (names.length === 0 && unusedMs === undefined && !all) {
    const message = "Expected what to remove: names of caches, `--older-than` or `--all`";
    throw new InvalidOptionError("name", message);
  }
  const named = new Set(names.map((name) => oneNamed(caches, name, directory)));
  const chosen = caches.filter((cache) => {
    if (named.has(cache)) return true;
    if (names.length > 0) return false;
    return all || (unusedMs !== undefined && nowMs - cache.usedMs >= unusedMs);
  });
  const unused = chosen.filter(({ isInUse }) => !isInUse);
  const filesOf = (some: readonly CacheRecord[]) =>
    new Set(
      some.flatMap(({ path, damage }) => {
        return damage === undefined ? (readCacheMeta(path, disk).files?.names ?? []) : [];
      }),
    );
  const [needed, freed] = [filesOf(caches.filter((one) => !unused.includes(one))), filesOf(unused)];
  const oldMs = names.length > 0 ? Infinity : all ? inUseMs : (unusedMs ?? Infinity);
  const ofFiles = fileIndexesIn(directory, disk).filter(({ path, usedMs }) => {
    const name = basename(path);
    return !needed.has(name) && (freed.has(name) || nowMs - usedMs >= oldMs);
  });
  const old = rangesIn(directory, disk).filter(({ usedMs }) => nowMs - usedMs >= oldMs);
  const removed: CacheFile[] = [...unused, ...ofFiles, ...leftovers];
  for (const { path } of dryRun ? [] : [...removed, ...old]) {
    onDisk("remove", path, () => disk.remove(path));
  }
  const ranges = countOf(old);
  const bytes = countOf(removed).bytes + ranges.bytes;
  return { removed, inUse: chosen.filter(({ isInUse }) => isInUse), ranges, bytes };
}

function oneNamed(caches: readonly CacheRecord[], name: string, directory: string): CacheRecord {
  const found = caches.filter((cache) => cache.name.startsWith(name));
  const [first] = found;
  if (first !== undefined && found.length === 1) return first;
  const those = found.map((cache) => cache.name).join(", ");
  const message =
    first === undefined
      ? `There is no cache \`${name}\` in ${directory}: \`osiris cache ls\` lists them`
      : `Expected the name of one cache, \`${name}\` begins those of ${those}`;
  throw new InvalidOptionError("name", message);
}

// Builds the binary cache of the job's data, unless it exists: from files through a decoder, or
// from generated samples.

import { join } from "node:path";
import {
  DataCacheDamagedError,
  DiskRefusedError,
  InputUnusableError,
  InvalidOptionError,
  StoreFailedError,
} from "../../errors/errors.ts";
import { type Disk, type DiskFile, realDisk } from "../../ports/disk.ts";
import { isFull, lastingRefusal } from "../../ports/disk-refusals.ts";
import { isIndexedByFile, isStreamed } from "../data-kinds.ts";
import { checkEarly, type EarlyIndex, earlyPathOf } from "../file-index/early-index.ts";
import { indexedData } from "../file-index/index-file.ts";
import { type IndexHelp, IndexRun } from "../file-index/write-index.ts";
import { writeFiles } from "../file-samples.ts";
import type { ResolvedDataOptions, ResolvedSyntheticOptions, TableShape } from "../options.ts";
import { isAddress } from "../remote/addresses.ts";
import { type FileFacts, factsOfAll, factsOnDisk } from "../remote/file-facts.ts";
import type { KeyColumn } from "../split-keys.ts";
import { generatedPieces, generateSamples } from "../synthetic/synthetic.ts";
import { checkTables } from "../text/columns.ts";
import { checkRejected } from "../text/faults.ts";
import {
  cacheSuffix,
  freeName,
  markUsed,
  removeUnused,
  setAsideNameOf,
  tidyBeside,
} from "./cache-directory.ts";
import { readCacheMeta } from "./cache-facts.ts";
import { type CacheMeta, onDisk } from "./cache-format.ts";
import { cacheKey, cacheShapeOf } from "./cache-key.ts";
import { type CacheProgress, CacheWriter } from "./cache-writer.ts";

/** A complete cache: its file and its description. */
export interface CacheReport extends CacheMeta {
  readonly path: string;
  /** Why an existing cache was built again; undefined if it was not damaged. */
  readonly remade?: string | undefined;
  /** Number of files that were read to index them; undefined if no index was made. */
  readonly filesRead?: number | undefined;
}

/** Results of earlier work that `prepareCache` continues. */
export interface GivenCache {
  /** The early index with which a run has begun, and the indexing in progress. */
  readonly early?: { readonly run: IndexRun; readonly index: EarlyIndex } | undefined;
  /** The path of the cache on another host. @default derived from the files of this host */
  readonly path?: string | undefined;
}

type OnProgress = (progress: CacheProgress) => void;

/**
 * Returns the cache of this data for these tables, and builds it if it does not exist. Its name is
 * a hash of the files (path, size, modification time), the options that determine its content, the
 * tables, and `key`, the column that splits the data. Generating samples blocks the thread; reading
 * files is asynchronous. `help`: other threads and hosts that index files.
 * @throws InvalidOptionError if columns and tables do not match
 * @throws InputUnusableError if a file cannot be read, or has no good line
 * @throws DataRejectedError if too many lines are bad
 * @throws DiskRefusedError if the directory refuses files, or the disk is full
 * @throws StoreFailedError if the disk fails
 */
export async function prepareCache(
  options: ResolvedDataOptions,
  tables: readonly TableShape[],
  disk: Disk,
  onProgress: OnProgress = () => {},
  key?: KeyColumn,
  help?: IndexHelp,
  { early, path: given }: GivenCache = {},
): Promise<CacheReport> {
  if (options.kind !== "synthetic") checkTables(options, tables);
  const facts = await factsOfAll(pathsOf(options));
  const path = given ?? pathOf(options, tables, key, facts);
  const check = (meta: CacheMeta) => {
    if (options.kind !== "synthetic") checkRejected(options, meta);
  };
  const present = presentCache(path, disk);
  if (present.meta !== undefined) {
    check(present.meta); // The job that built it may have allowed more bad lines.
    if (isIndexedByFile(options)) removeUnused(earlyPathOf({ options, tables }, facts), path, disk);
    tidyBeside(path, options.cacheBytesMax, disk, (caches) => usedIn(caches, disk));
    return { path, ...present.meta };
  }
  making(options.cache, () => disk.makeDirectory(options.cache));
  const building = freeName(path, disk);
  const file = making(options.cache, () => disk.open(building, "write"));
  let meta: CacheMeta;
  let damage = present.damage;
  let filesRead: number | undefined;
  let fraction = 0;
  try {
    const tell = (progress: CacheProgress) => {
      // Touches the file, as an index is written only at its end (`abandonedMs`).
      if (Math.floor(1000 * progress.fraction) > Math.floor(1000 * fraction)) {
        markUsed(building, disk);
      }
      fraction = progress.fraction;
      checkBytes(options, file.size());
      onProgress(progress);
    };
    if (isIndexedByFile(options)) {
      const data = { options, tables, key, disk, store: help?.store };
      const run = early?.run ?? new IndexRun(indexedData(data), facts, help);
      const made = await run.write(file, tell, early?.index.meta).finally(() => run.stop());
      if (early !== undefined) checkEarly(early.index.meta, made.meta);
      meta = made.meta;
      damage ??= made.damage;
      filesRead = made.filesRead;
    } else meta = await fill(file, options, tables, tell, key, facts);
    check(meta);
    checkBytes(options, file.size());
    onDisk("sync", building, () => file.sync());
  } catch (error) {
    const refusal = noRoomFor(options.cache, file.size(), fraction, error);
    file.close();
    disk.remove(building);
    throw refusal ?? error;
  }
  file.close();
  onDisk("rename", building, () => disk.rename(building, path));
  onDisk("sync", options.cache, () => disk.syncDirectory(options.cache));
  disk.remove(setAsideNameOf(path));
  tidyBeside(path, options.cacheBytesMax, disk, (caches) => usedIn(caches, disk));
  const found = { ...(filesRead !== undefined && { filesRead }) };
  return { path, ...meta, ...found, ...(damage === undefined ? {} : { remade: damage }) };
}

/** Names of all files' indexes to which indexes among these caches refer. */
function usedIn(caches: readonly string[], disk: Disk): string[] {
  return caches.flatMap((path) => {
    return path.endsWith(`.index${cacheSuffix}`)
      ? (presentCache(path, disk).meta?.files?.names ?? [])
      : [];
  });
}

/** @throws InvalidOptionError if this cache alone exceeds the limit of the directory */
function checkBytes({ cache, cacheBytesMax = Infinity }: ResolvedDataOptions, bytes: number): void {
  if (bytes <= cacheBytesMax) return;
  const message =
    `Expected \`data.cacheBytesMax\` to have room for the cache of these data in ${cache}, which ` +
    `has more than ${cacheBytesMax} bytes: give it more, or fewer data`;
  throw new InvalidOptionError("data.cacheBytesMax", message);
}

/**
 * Returns the cache of this data for these tables without building it. Undefined if it does not
 * exist or is damaged, or if a file of the data is remote or cannot be read.
 * @throws StoreFailedError if the disk fails
 */
export function findCache(
  options: ResolvedDataOptions,
  tables: readonly TableShape[],
  disk: Disk = realDisk,
  key?: KeyColumn,
): CacheReport | undefined {
  try {
    const paths = pathsOf(options);
    if (paths.some(isAddress)) return undefined; // Their facts would need requests.
    const path = pathOf(options, tables, key, paths.map(factsOnDisk));
    const { meta } = presentCache(path, disk);
    return meta === undefined ? undefined : { path, ...meta };
  } catch (error) {
    if (error instanceof InputUnusableError) return undefined;
    throw error;
  }
}

function pathOf(
  options: ResolvedDataOptions,
  tables: readonly TableShape[],
  key: KeyColumn | undefined,
  facts: readonly FileFacts[],
): string {
  const form = isStreamed(options) ? ".index" : "";
  const name = `${options.kind}-${cacheKey(options, tables, key, facts)}${form}${cacheSuffix}`;
  return join(options.cache, name);
}

/** Creates the directory or file of a cache with `work`. @throws DiskRefusedError */
function making<Result>(directory: string, work: () => Result): Result {
  try {
    return onDisk("make", directory, work);
  } catch (error) {
    const cause = error instanceof StoreFailedError ? error.cause : undefined;
    const why = isFull(cause) ? "the disk is full" : lastingRefusal(cause);
    if (why === undefined) throw error;
    const advice = "name another directory with `data.cache`";
    throw new DiskRefusedError("make the data cache in", directory, `${why}; ${advice}`, { cause });
  }
}

/**
 * The error to report if the disk is full before the cache is complete; undefined for other errors.
 */
function noRoomFor(
  directory: string,
  bytes: number,
  fraction: number,
  error: unknown,
): DiskRefusedError | undefined {
  const cause = error instanceof StoreFailedError ? error.cause : undefined;
  if (!isFull(cause)) return undefined;
  const megabytes = (count: number) => `${Math.ceil(count / 1e6).toLocaleString("en-US")} MB`;
  const whole = fraction > 0 ? `, of about ${megabytes(bytes / fraction)} that it needs` : "";
  const why =
    `the disk is full after ${megabytes(bytes)}${whole}; ` +
    "make room, or name another directory with `data.cache`";
  return new DiskRefusedError("write the data cache in", directory, why, { cause });
}

/** Whether the complete index of the data exists, undamaged. */
export function findIndex(
  options: ResolvedDataOptions,
  tables: readonly TableShape[],
  facts: readonly FileFacts[],
  disk: Disk,
): boolean {
  return presentCache(pathOf(options, tables, undefined, facts), disk).meta !== undefined;
}

function pathsOf(options: ResolvedDataOptions): readonly string[] {
  return options.kind === "synthetic" ? [] : options.paths;
}

/** The description of an existing cache, or the damage that makes it unusable. */
function presentCache(path: string, disk: Disk): { meta?: CacheMeta; damage?: string } {
  if (!disk.exists(path)) {
    const isSetAside = disk.exists(setAsideNameOf(path));
    return isSetAside ? { damage: "a reader found damage in it" } : {};
  }
  try {
    return { meta: readCacheMeta(path, disk) };
  } catch (error) {
    if (error instanceof DataCacheDamagedError) return { damage: error.reason };
    throw error;
  }
}

async function fill(
  file: DiskFile,
  options: ResolvedDataOptions,
  tables: readonly TableShape[],
  onProgress: OnProgress,
  key: KeyColumn | undefined,
  facts: readonly FileFacts[],
): Promise<CacheMeta> {
  const writer = new CacheWriter(file, cacheShapeOf(options, tables), isStreamed(options));
  if (options.kind === "synthetic") return writeGenerated(writer, options, tables, onProgress);
  const { hashes, counts, keys, ...meta } = await writeFiles(
    writer,
    options,
    tables,
    onProgress,
    facts,
    key,
  );
  const sources = facts.map(({ path, bytes, version }, i) => {
    const modifiedMs = typeof version === "number" ? version : 0; // A server gives a tag instead.
    return { path, bytes, modifiedMs, sha256: hashes[i], samples: counts[i] };
  });
  return writer.finish({ ...meta, sources }, keys);
}

const noneRejected = { count: 0, kept: [], reasons: [] };

function writeGenerated(
  writer: CacheWriter,
  options: ResolvedSyntheticOptions,
  tables: readonly TableShape[],
  onProgress: OnProgress,
): CacheMeta {
  const { bestAuc, bestRmse } = generateSamples(options, tables, (sample) => {
    writer.append(sample);
    if (writer.samples % 10_000 !== 0) return;
    const fraction = writer.samples / options.samples;
    onProgress({ samples: writer.samples, quarantined: 0, fraction });
  });
  const best = bestRmse === undefined ? { bestAuc } : { bestRmse };
  const pieces = isStreamed(options) ? { pieces: generatedPieces(options) } : {};
  return writer.finish({ quarantine: noneRejected, ...best, ...pieces });
}

// Makes the binary cache of the job's data, once: from text through the decoder, or from generated
// samples.

import { createHash } from "node:crypto";
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
import { isStreamed, isTable, transformsOf } from "../data-kinds.ts";
import type {
  ResolvedDataOptions,
  ResolvedFileOptions,
  ResolvedSyntheticOptions,
  TableShape,
} from "../options.ts";
import { isAddress, shownPath } from "../remote/addresses.ts";
import { type FileFacts, factsOfAll, factsOnDisk } from "../remote/file-facts.ts";
import type { KeyColumn } from "../split-keys.ts";
import { generatedPieces, generateSamples } from "../synthetic/synthetic.ts";
import { areNumeric, targetsOf } from "../targets.ts";
import { checkTables, denseOf, wideOf } from "../text/columns.ts";
import { checkRejected } from "../text/faults.ts";
import { weightedOf } from "../text/match-features.ts";
import { writeText } from "../text/text-samples.ts";
import { identityOf as transformsIdentity, withVocabularies } from "../transforms/vocabulary.ts";
import { buildingNameOf, cacheSuffix, setAsideNameOf, tidyBeside } from "./cache-directory.ts";
import { readCacheMeta } from "./cache-facts.ts";
import { type CacheMeta, cacheVersion, onDisk } from "./cache-format.ts";
import { type CacheProgress, type CacheShape, CacheWriter } from "./cache-writer.ts";

/** A complete cache: its file and its description. */
export interface CacheReport extends CacheMeta {
  readonly path: string;
  /** Why a cache that was there is made anew; undefined: nothing was wrong with it. */
  readonly remade?: string | undefined;
}

type OnProgress = (progress: CacheProgress) => void;

/**
 * The cache of this data for these tables, which exists already or is made now. Its name is a
 * function of the files (path, size, time of change), the options that decide its content, the
 * tables, and `key`, the column that splits the data. Generating blocks the thread; reading text
 * awaits its files.
 * @throws InvalidOptionError where columns and tables do not match
 * @throws InputUnusableError where a file cannot be read, or has no good line
 * @throws DataRejectedError where too many lines are bad
 * @throws DiskRefusedError where the directory refuses files, or the disk is full
 * @throws StoreFailedError where the disk fails
 */
export async function prepareCache(
  options: ResolvedDataOptions,
  tables: readonly TableShape[],
  disk: Disk,
  onProgress: OnProgress = () => {},
  key?: KeyColumn,
): Promise<CacheReport> {
  if (options.kind !== "synthetic") checkTables(options, tables);
  const facts = await factsOfAll(pathsOf(options));
  const path = pathOf(options, tables, key, facts);
  const check = (meta: CacheMeta) => {
    if (options.kind !== "synthetic") checkRejected(options, meta);
  };
  const present = presentCache(path, disk);
  if (present.meta !== undefined) {
    check(present.meta); // The job that made it may have allowed more bad lines.
    tidyBeside(path, options.cacheBytesMax, disk);
    return { path, ...present.meta };
  }
  making(options.cache, () => disk.makeDirectory(options.cache));
  const building = freeName(path, disk);
  const file = making(options.cache, () => disk.open(building, "write"));
  let meta: CacheMeta;
  let fraction = 0;
  try {
    const tell = (progress: CacheProgress) => {
      fraction = progress.fraction;
      checkBytes(options, file.size());
      onProgress(progress);
    };
    meta = await fill(file, options, tables, tell, key, facts);
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
  tidyBeside(path, options.cacheBytesMax, disk);
  return { path, ...meta, ...(present.damage === undefined ? {} : { remade: present.damage }) };
}

/** @throws InvalidOptionError where a cache alone has more bytes than those of its directory may */
function checkBytes({ cache, cacheBytesMax = Infinity }: ResolvedDataOptions, bytes: number): void {
  if (bytes <= cacheBytesMax) return;
  const message =
    `Expected \`data.cacheBytesMax\` to have room for the cache of these data in ${cache}, which ` +
    `has more than ${cacheBytesMax} bytes: give it more, or fewer data`;
  throw new InvalidOptionError("data.cacheBytesMax", message);
}

/**
 * The cache of this data for these tables, where it has been made; undefined: it has not, it is
 * damaged, or a file of the data cannot be read. Looks, and changes nothing.
 * @throws StoreFailedError where the disk fails
 */
export function findCache(
  options: ResolvedDataOptions,
  tables: readonly TableShape[],
  disk: Disk = realDisk,
  key?: KeyColumn,
): CacheReport | undefined {
  try {
    const paths = pathsOf(options);
    if (paths.some(isAddress)) return undefined; // Their servers would have to be asked.
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

/** Makes what the cache lies in. @throws DiskRefusedError */
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

/** The error of a disk that is full before the cache is whole; undefined for any other error. */
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

/**
 * An unused temporary name: this writer may be building another cache, or have left a file behind.
 */
function freeName(path: string, disk: Disk): string {
  for (let build = 0; ; build++) {
    const name = buildingNameOf(path, disk.writer, build);
    if (!disk.exists(name)) return name;
  }
}

/** The source of the cache's name: everything that decides its content. */
function cacheKey(
  options: ResolvedDataOptions,
  tables: readonly TableShape[],
  key: KeyColumn | undefined,
  facts: readonly FileFacts[],
): string {
  const { batchSize: _, passes: _passes, shuffle: _shuffle, ...others } = options;
  const { order: _order, ...rest } = others;
  const { cache: _cache, cacheBytesMax: _bytes, ...content } = { ...rest, streamed: undefined };
  const isText = options.kind !== "synthetic";
  const files = facts.map(({ path, bytes, version }) => [path, bytes, version]);
  // What signs a request is no part of the data.
  const own = isText ? { paths: options.paths.map(shownPath) } : {};
  const shapes = tables.map(({ name, column, table, rows, idBits = 32, ids }) => {
    const shape = [name, rows, idBits, isText && idBits === 32 ? ids : undefined];
    return column === undefined ? shape : [...shape, column, table];
  });
  const damaged = "damagedMax" in options && { damagedMax: options.damagedMax || undefined };
  const decides = { ...content, ...own, ...undeciding, ...damaged, ...made(options) };
  const parts = [cacheVersion, files, decides, shapes];
  const text = JSON.stringify(key === undefined ? parts : [...parts, key]);
  return createHash("sha256").update(text).digest("hex").slice(0, 24);
}

/** The transforms, with the contents of their vocabularies; nothing where there are none. */
function made(options: ResolvedDataOptions): { readonly transforms?: object } {
  const transforms = transformsOf(options);
  return transforms === undefined
    ? {}
    : { transforms: transformsIdentity(withVocabularies(transforms)) };
}

/** Options of text that decide which data is refused, and no sample. */
const undeciding = { rejectedMax: undefined, labelAsFeature: undefined };

function pathsOf(options: ResolvedDataOptions): readonly string[] {
  return options.kind === "synthetic" ? [] : options.paths;
}

/** An existing cache; or why it cannot be used, where it is damaged. */
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
    const modifiedMs = typeof version === "number" ? version : 0; // A server says otherwise.
    return { path, bytes, modifiedMs, sha256: hashes[i], samples: counts[i] };
  });
  return writer.finish({ ...meta, sources }, keys);
}

/** The shape of the samples of data. */
export function cacheShapeOf(
  options: ResolvedDataOptions,
  tables: readonly TableShape[],
): CacheShape {
  const [wide, weighted] = [wideOf(tables), weightedOf(options, tables)];
  const rows = tables.map((table) => table.rows);
  const shape = { dense: denseOf(options), features: tables.length, wide, weighted, rows };
  return { ...shape, targets: targetsOf(options), numeric: areNumeric(options) };
}

/** Appends all good samples of the files to a cache; returns what `CacheWriter.finish` is told. */
export async function writeFiles(
  writer: CacheWriter,
  options: ResolvedFileOptions,
  tables: readonly TableShape[],
  onProgress: OnProgress,
  facts: readonly FileFacts[],
  key: KeyColumn | undefined,
) {
  if (!isTable(options)) return writeText(writer, options, tables, onProgress, facts, key);
  // Nothing that reads text needs its packages.
  const { writeTables } = await import("../tables/table-samples.ts");
  return writeTables(writer, options, tables, onProgress, facts, key);
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

// Types for the part of RocksDB's binding that Osiris uses (`rocksdb`, an alias of
// @nxtedition/rocksdb), which has no types of its own. It is loaded lazily, because it has binaries
// for few platforms and loading takes time.

import { InvalidOptionError } from "../../../src/errors/errors.ts";

export interface RocksOpenOptions {
  readonly createIfMissing: boolean;
  readonly compression: boolean;
  readonly walCompression: boolean;
  /** Bytes of the block cache. */
  readonly cacheSize: number;
  /** Filters and indexes count against the block cache, instead of growing without a limit. */
  readonly cacheIndexAndFilterBlocks: boolean;
  /** Threads that flush and compact. */
  readonly parallelism: number;
}

/** An atomic batch of writes. `_put` copies keys and values. */
export interface RocksBatch {
  _put(key: Uint8Array, value: Uint8Array): void;
  _writeSync(options: { readonly sync: boolean }): void;
  _closeSync(): void;
}

/** A database. Errors have a `code`: LEVEL_CORRUPTION, LEVEL_IO_ERROR, or none. */
export interface RocksDatabase {
  open(options: RocksOpenOptions): Promise<void>;
  /** MultiGet: values in the order of keys; undefined for a missing key. */
  _getManySync(
    keys: readonly Uint8Array[],
    options: { readonly valueEncoding: "buffer"; readonly fillCache: boolean },
  ): (Uint8Array | undefined)[];
  batch(): RocksBatch;
  close(): Promise<void>;
}

interface RocksModule {
  readonly RocksLevel: new (
    directory: string,
    options: { readonly keyEncoding: "buffer"; readonly valueEncoding: "buffer" },
  ) => RocksDatabase;
}

/** Whether RocksDB was installed, and has a binary for this platform. */
export async function hasRocks(): Promise<boolean> {
  return load().then(
    () => true,
    () => false,
  );
}

/**
 * Opens the database in `directory`. If that fails, RocksDB's error is the thrown error's `cause`.
 *
 * @throws InvalidOptionError where this platform has no binary of RocksDB
 */
export async function openRocks(
  directory: string,
  options: RocksOpenOptions,
): Promise<RocksDatabase> {
  const { RocksLevel } = await load();
  const db = new RocksLevel(directory, { keyEncoding: "buffer", valueEncoding: "buffer" });
  await db.open(options); // Immediately, as the database would open itself without the options.
  return db;
}

async function load(): Promise<RocksModule> {
  const name: string = "rocksdb";
  try {
    return await import(name);
  } catch (cause) {
    throw new InvalidOptionError(
      "tiers.ssd",
      `RocksDB has no binary for ${process.platform}-${process.arch}, or was not installed: ` +
        'leave `tiers.ssd` out, or say "file", which works everywhere',
      { cause },
    );
  }
}

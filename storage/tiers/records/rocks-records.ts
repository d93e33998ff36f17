// The SSD tier in RocksDB, for rows that are sparse in a wide range, each of which would take a
// page of its own in a flat file. One database holds all shards. A key is the shard and the row,
// both big-endian, so neighbouring rows have neighbouring keys. RocksDB verifies every block's
// checksum on reading.
//
// The write-ahead log stays on, in `spill` stores too, because the binding cannot switch it off.
// Only `sync` flushes it to the disk, with the stamp under a key of its own. RocksDB accepts a log
// with a lost tail as the result of a crash; the missing stamp reveals the loss.
//
// After a write failed on a full disk, the database accepts no more writes, even if there is room
// later. That ends the generation, as soon as there is room for the next one's database.

import { closeSync, openSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { RecordCorruptError, TrainingError } from "../../../src/errors/errors.ts";
import { realDisk } from "../../../src/ports/disk.ts";
import { type Ledger, ofShard, onTier, openLedger, refusal } from "./ledger.ts";
import { dropCached } from "./record-file.ts";
import {
  checkBatch,
  checkRows,
  type RecordShard,
  type RecordStore,
  type RecordStoreOptions,
  scanRows,
} from "./record-store.ts";
import { openRocks, type RocksDatabase, type RocksOpenOptions } from "./rocksdb.ts";

/** Options of every database. Write buffers take up to 128 MiB in addition to the cache. */
export const rocksOptions: RocksOpenOptions = {
  createIfMissing: true,
  compression: false,
  walCompression: false,
  cacheSize: 32 << 20,
  cacheIndexAndFilterBlocks: true,
  parallelism: 2,
};
/** Most rows of a batch, as the binding allocates a JavaScript object for each row. */
const batchRows = 4096;
const keyBytes = 12;
/** Named in errors that concern no single shard. */
const everything = { name: "any table" };
const stampKey = new Uint8Array(keyBytes).fill(0xff);

/**
 * Opens the database of a store.
 *
 * @throws InvalidOptionError where this platform has no binary of RocksDB
 * @throws InputUnusableError where a durable store's directory holds records of other shards
 */
export async function openRocksRecords(options: RecordStoreOptions): Promise<RecordStore> {
  const { directory, shards, keep, pageCache = true } = options;
  const path = join(directory, "rocksdb");
  const ledger = openLedger(options);
  const db = await openDatabase(path, ledger);
  const keysOf = createKeys();
  const done = { read: 0, written: 0 };
  let isStuck = false;

  const store: RecordStore = {
    get stamp() {
      return ledger.stamp;
    },
    read(at, rows, records, found) {
      const shard = ofShard(shards, at);
      checkBatch(shard, rows, records, found);
      ledger.find(at, rows, found);
      const places = Int32Array.from(rows.keys()).filter((i) => found[i] === 1);
      for (let first = 0; first < places.length; first += batchRows) {
        const some = places.subarray(first, first + batchRows);
        const batch = some.map((i) => rows[i] ?? 0);
        const values = attempt("read", shard, path, ledger, () =>
          db._getManySync(keysOf(at, batch), { valueEncoding: "buffer", fillCache: true }),
        );
        for (const [i, place] of some.entries()) {
          const value = values[i];
          if (value?.length !== shard.recordBytes) {
            ledger.distrust();
            const what = `row ${rows[place]} of \`${shard.name}\``;
            throw new RecordCorruptError(what, path, `it has ${value?.length ?? "no"} bytes`);
          }
          records.set(value, place * shard.recordBytes);
        }
      }
      done.read += places.length;
      if (!pageCache) dropCachedOf(path);
    },
    write(at, rows, records) {
      const shard = ofShard(shards, at);
      checkBatch(shard, rows, records);
      const { recordBytes } = shard;
      ledger.write(at, rows, () => {
        if (isStuck) throw stuck(shard, directory, path);
        for (let first = 0; first < rows.length; first += batchRows) {
          const keys = keysOf(at, rows.subarray(first, first + batchRows));
          attempt("write", shard, path, ledger, () => {
            const batch = db.batch();
            for (const [i, key] of keys.entries()) {
              const begin = (first + i) * recordBytes;
              batch._put(key, records.subarray(begin, begin + recordBytes));
            }
            isStuck = true;
            batch._writeSync({ sync: false });
            isStuck = false;
            batch._closeSync();
          });
        }
        if (!pageCache) dropCachedOf(path);
      });
      done.written += rows.length;
    },
    remove(at, rows) {
      checkRows(ofShard(shards, at), rows);
      ledger.remove(at, rows);
    },
    count: (at) => ledger.present(at).size,
    scan: (at, rowsMax) => scanRows(store, at, ofShard(shards, at), ledger.present(at), rowsMax),
    sync(stamp) {
      if (keep === "spill") return;
      ledger.sync(stamp, () => {
        attempt("write", everything, path, ledger, () => {
          const batch = db.batch();
          batch._put(stampKey, new TextEncoder().encode(stamp));
          batch._writeSync({ sync: true });
          batch._closeSync();
        });
      });
    },
    stats: () => ({ ...done, diskBytes: bytesIn(path) }),
    async close() {
      await closed(db, path);
      if (keep === "spill") realDisk.remove(directory);
    },
  };
  return store;
}

/** Makes the keys of at most `batchRows` rows of a shard, in memory that the next call reuses. */
function createKeys(): (at: number, rows: Int32Array) => readonly Uint8Array[] {
  const keys = Array.from({ length: batchRows }, () => new Uint8Array(keyBytes));
  const views = keys.map((key) => new DataView(key.buffer));
  return (at, rows) => {
    for (const [i, row] of rows.entries()) {
      views[i]?.setUint32(0, at);
      views[i]?.setUint32(8, row);
    }
    return rows.length === batchRows ? keys : keys.slice(0, rows.length);
  };
}

/** Opens the database that matches the ledger's stamp, or an empty one. */
async function openDatabase(path: string, ledger: Ledger): Promise<RocksDatabase> {
  const { stamp } = ledger;
  if (stamp === undefined) {
    onTier("write", "the database of an earlier run", path, () => realDisk.remove(path));
  }
  const createIfMissing = stamp === undefined;
  const db = await openRocks(path, { ...rocksOptions, createIfMissing }).catch((error) => {
    if (error instanceof TrainingError) throw error;
    ledger.distrust();
    throw refused(stamp === undefined ? "write" : "read", everything, path, error.cause);
  });
  if (stamp === undefined) return db;
  const [found] = db._getManySync([stampKey], { valueEncoding: "buffer", fillCache: false });
  if (found !== undefined && new TextDecoder().decode(found) === stamp) return db;
  await db.close();
  ledger.distrust();
  throw new RecordCorruptError(`rows of \`${everything.name}\``, path, "its log has lost its end");
}

async function closed(db: RocksDatabase, path: string): Promise<void> {
  await db.close().catch((error) => {
    throw refused("write", everything, path, error.cause ?? error);
  });
}

/** Runs `body`. An error of RocksDB removes the stamp and becomes a tier error. */
function attempt<Result>(
  action: "read" | "write",
  of: Pick<RecordShard, "name">,
  path: string,
  ledger: Ledger,
  body: () => Result,
): Result {
  try {
    return body();
  } catch (error) {
    ledger.distrust();
    throw refused(action, of, path, error);
  }
}

/** Matches RocksDB's messages for a full disk, which have no error code. */
const full = /No space left|File too large|[Qq]uota exceeded|Space limit reached/;

function refused(
  action: "read" | "write",
  of: Pick<RecordShard, "name">,
  path: string,
  cause: unknown,
): unknown {
  if (!(cause instanceof Error)) return cause;
  const what = `rows of \`${of.name}\``;
  if ("code" in cause && cause.code === "LEVEL_CORRUPTION") {
    return new RecordCorruptError(what, path, `RocksDB says ${cause.message}`, { cause });
  }
  const code = full.test(cause.message) ? "ENOSPC" : cause.message;
  return refusal(action, what, path, code, { cause });
}

/** Bytes that an empty database needs, for its first logs and tables. */
const roomBytes = 1 << 20;

/**
 * The error of writes after one has failed: the disk is still full, or there is room again but the
 * database must be reopened.
 */
function stuck({ name }: RecordShard, directory: string, path: string): Error {
  const what = `rows of \`${name}\``;
  const probe = join(directory, "room");
  try {
    onTier("write", what, path, () => writeFileSync(probe, new Uint8Array(roomBytes)));
  } catch (error) {
    if (error instanceof TrainingError) return error;
    throw error;
  } finally {
    rmSync(probe, { force: true });
  }
  return refusal("write", what, path, "RocksDB accepts writes only when reopened; there is room");
}

function dropCachedOf(path: string): void {
  for (const name of realDisk.list(path)) {
    const descriptor = openSync(join(path, name), "r");
    dropCached(descriptor);
    closeSync(descriptor);
  }
}

function bytesIn(path: string): number {
  return realDisk.list(path).reduce((sum, name) => {
    const file = realDisk.open(join(path, name), "read");
    const bytes = file.size();
    file.close();
    return sum + bytes;
  }, 0);
}

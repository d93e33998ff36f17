// The SSD tier as flat files, one a shard, for tables with dense ids: a row's place is its number.
// Files are sparse, so a table of 10⁹ rows costs nothing until used, and of a `spill` store they
// have no name, so that a killed process leaves nothing behind either.

import { closeSync, fdatasyncSync, fstatSync, openSync, rmdirSync, unlinkSync } from "node:fs";
import { join } from "node:path";
import { RecordCorruptError } from "../../src/tier-errors.ts";
import { diskCode } from "../durable-files.ts";
import { ofShard, onTier, openLedger } from "./ledger.ts";
import { openRecordFiles, type RecordFiles, type RecordOutcome } from "./record-file.ts";
import {
  checkBatch,
  checkRows,
  type RecordShard,
  type RecordStore,
  type RecordStoreOptions,
  scanRows,
} from "./record-store.ts";
import { refusal } from "./refusals.ts";

interface ShardFile extends RecordShard {
  readonly path: string;
  readonly descriptor: number;
}

/**
 * Opens the files of a store; `files` are the calls to the system.
 *
 * @throws InputUnusableError where a durable store's directory holds the records of other shards
 */
export function openFileRecords(
  options: RecordStoreOptions,
  files: RecordFiles = openRecordFiles("auto"),
): RecordStore {
  const { directory, keep, pageCache = true } = options;
  const ledger = openLedger(options);
  const isKept = ledger.stamp !== undefined;
  const shards = options.shards.map((shard, at) => openShard(shard, directory, at, keep, isKept));
  const done = { read: 0, written: 0 };

  const store: RecordStore = {
    get stamp() {
      return ledger.stamp;
    },
    read(at, rows, records, found) {
      const shard = ofShard(shards, at);
      checkBatch(shard, rows, records, found);
      ledger.find(at, rows, found);
      const outcome = files.read(shard.descriptor, shard.recordBytes, rows, found, records);
      if (outcome.at >= 0) {
        ledger.distrust();
        throw failure("read", shard, rows, outcome);
      }
      for (let i = 0; i < rows.length; i++) done.read += found[i] ?? 0;
      if (!pageCache) files.dropCached(shard.descriptor);
    },
    write(at, rows, records) {
      const shard = ofShard(shards, at);
      checkBatch(shard, rows, records);
      ledger.write(at, rows, () => {
        const outcome = files.write(shard.descriptor, shard.recordBytes, rows, records);
        if (outcome.at >= 0) throw failure("write", shard, rows, outcome);
        if (!pageCache) files.dropCached(shard.descriptor);
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
        for (const { name, path, descriptor } of shards) {
          onTier("write", `the rows of \`${name}\``, path, () => fdatasyncSync(descriptor));
        }
      });
    },
    stats: () => ({ ...done, diskBytes: shards.reduce((sum, shard) => sum + bytesOf(shard), 0) }),
    async close() {
      for (const { descriptor } of shards) closeSync(descriptor);
      if (keep === "spill") removeEmpty(directory);
    },
  };
  return store;
}

function openShard(
  shard: RecordShard,
  directory: string,
  at: number,
  keep: "spill" | "durable",
  isKept: boolean,
): ShardFile {
  const path = join(directory, `shard-${at}.rows`);
  const descriptor = onTier(isKept ? "read" : "write", `the rows of \`${shard.name}\``, path, () =>
    openSync(path, isKept ? "r+" : "w+"),
  );
  if (keep === "spill") unlinkSync(path);
  return { ...shard, path, descriptor };
}

function failure(
  action: "read" | "write",
  shard: ShardFile,
  rows: Int32Array,
  { at, code }: RecordOutcome,
): Error {
  const what = `row ${rows[at]} of \`${shard.name}\``;
  if (code !== undefined) return refusal(action, what, shard.path, code);
  return new RecordCorruptError(what, shard.path, "its checksum is another");
}

/** What a file takes of the disk: its holes take nothing. */
function bytesOf({ descriptor }: ShardFile): number {
  return fstatSync(descriptor).blocks * 512;
}

/** Removes a directory, unless others put something there. */
function removeEmpty(directory: string): void {
  try {
    rmdirSync(directory);
  } catch (error) {
    if (diskCode(error) === undefined) throw error;
  }
}

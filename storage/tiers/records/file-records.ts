// The SSD tier as flat files, one per shard, for tables with dense ids: a row's number is its
// position in the file. Files are sparse, so unused rows of a table of 10⁹ rows take no space.
// Files of a `spill` store are unlinked once they are open, so a killed process leaves none behind.

import { join } from "node:path";
import { RecordCorruptError } from "../../../src/errors/errors.ts";
import { type Disk, realDisk } from "../../../src/ports/disk.ts";
import { diskCode } from "../../../src/ports/disk-refusals.ts";
import { ofShard, onTier, openLedger, refusal } from "./ledger.ts";
import {
  type OpenRecordFile,
  type RecordFile,
  type RecordOutcome,
  recordFiles,
} from "./record-file.ts";
import {
  checkBatch,
  checkRows,
  type RecordShard,
  type RecordStore,
  type RecordStoreOptions,
  scanRows,
} from "./record-store.ts";

interface ShardFile extends RecordShard {
  readonly path: string;
  readonly file: RecordFile;
}

/**
 * Opens the files of a store, each with `open`.
 *
 * @throws InputUnusableError where a durable store's directory holds records of other shards
 */
export function openFileRecords(
  options: RecordStoreOptions,
  open: OpenRecordFile = recordFiles("auto", options.disk),
): RecordStore {
  const { directory, keep, pageCache = true, disk = realDisk } = options;
  const ledger = openLedger(options);
  const isKept = ledger.stamp !== undefined;
  const shards = options.shards.map((shard, at): ShardFile => {
    const path = join(directory, `shard-${at}.rows`);
    const what = `the rows of \`${shard.name}\``;
    return onTier(isKept ? "read" : "write", what, path, () => {
      const file = open(path, shard.recordBytes, isKept ? "update" : "write");
      if (keep === "spill") disk.remove(path);
      return { ...shard, path, file };
    });
  });
  const done = { read: 0, written: 0 };

  const store: RecordStore = {
    get stamp() {
      return ledger.stamp;
    },
    read(at, rows, records, found) {
      const shard = ofShard(shards, at);
      checkBatch(shard, rows, records, found);
      ledger.find(at, rows, found);
      const outcome = shard.file.read(rows, found, records);
      if (outcome.at >= 0) {
        ledger.distrust();
        throw failure("read", shard, rows, outcome);
      }
      for (let i = 0; i < rows.length; i++) done.read += found[i] ?? 0;
      if (!pageCache) shard.file.dropCached();
    },
    write(at, rows, records) {
      const shard = ofShard(shards, at);
      checkBatch(shard, rows, records);
      ledger.write(at, rows, () => {
        const outcome = shard.file.write(rows, records);
        if (outcome.at >= 0) throw failure("write", shard, rows, outcome);
        if (!pageCache) shard.file.dropCached();
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
        for (const { name, path, file } of shards) {
          onTier("write", `the rows of \`${name}\``, path, () => file.sync());
        }
      });
    },
    stats: () => ({ ...done, diskBytes: shards.reduce((sum, { file }) => sum + file.bytes(), 0) }),
    async close() {
      for (const { file } of shards) file.close();
      if (keep === "spill") removeEmpty(disk, directory);
    },
  };
  return store;
}

function failure(
  action: "read" | "write",
  shard: ShardFile,
  rows: Int32Array,
  { at, code }: RecordOutcome,
): Error {
  const what = `row ${rows[at]} of \`${shard.name}\``;
  if (code !== undefined) return refusal(action, what, shard.path, code);
  return new RecordCorruptError(what, shard.path, "its checksum is wrong");
}

function removeEmpty(disk: Disk, directory: string): void {
  if (disk.list(directory).length > 0) return;
  try {
    disk.remove(directory);
  } catch (error) {
    if (diskCode(error) === undefined) throw error;
  }
}

// Records in this process's memory: the reference that every other store must equal, and the SSD
// tier of a simulated run. It ends with the process, so it is always a `spill` store.

import { createRowSet } from "../../../src/embedding/rows/row-set.ts";
import { ofShard } from "./ledger.ts";
import {
  checkBatch,
  checkRows,
  type RecordStore,
  type RecordStoreOptions,
  scanRows,
} from "./record-store.ts";

export function createMemoryRecords(options: Pick<RecordStoreOptions, "shards">): RecordStore {
  const shards = options.shards.map((shard) => ({
    ...shard,
    present: createRowSet(),
    records: new Map<number, Uint8Array>(),
  }));
  const done = { read: 0, written: 0 };
  const store: RecordStore = {
    stamp: undefined,
    read(at, rows, records, found) {
      const shard = ofShard(shards, at);
      checkBatch(shard, rows, records, found);
      for (const [i, row] of rows.entries()) {
        const record = shard.records.get(row);
        found[i] = record === undefined ? 0 : 1;
        if (record === undefined) continue;
        records.set(record, i * shard.recordBytes);
        done.read++;
      }
    },
    write(at, rows, records) {
      const shard = ofShard(shards, at);
      checkBatch(shard, rows, records);
      for (const [i, row] of rows.entries()) {
        const begin = i * shard.recordBytes;
        shard.records.set(row, records.slice(begin, begin + shard.recordBytes));
        shard.present.add(row);
      }
      done.written += rows.length;
    },
    remove(at, rows) {
      const shard = ofShard(shards, at);
      checkRows(shard, rows);
      for (const row of rows) {
        shard.records.delete(row);
        shard.present.delete(row);
      }
    },
    count: (at) => ofShard(shards, at).present.size,
    scan(at, rowsMax) {
      const shard = ofShard(shards, at);
      return scanRows(store, at, shard, shard.present, rowsMax);
    },
    sync() {},
    stats: () => ({ ...done, diskBytes: 0 }),
    async close() {
      for (const { records } of shards) records.clear();
    },
  };
  return store;
}

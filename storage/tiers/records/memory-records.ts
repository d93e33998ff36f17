// Records in this process's memory: the store of `tiers.ssd: none`, the reference that every other
// store must equal, and the SSD tier of a simulated run. It ends with the process, so it is always
// a `spill` store. A page of rows gets memory when the first of them is written.

import { createRowSet } from "../../../src/embedding/rows/row-set.ts";
import { ofShard } from "./ledger.ts";
import {
  checkBatch,
  checkRows,
  type RecordShard,
  type RecordStore,
  type RecordStoreOptions,
  scanRows,
} from "./record-store.ts";

/** Most bytes of a page with several rows: the memory that one touched row takes. */
const pageBytesMax = 16_384;

export function createMemoryRecords(options: Pick<RecordStoreOptions, "shards">): RecordStore {
  const shards = options.shards.map((shard) => {
    const pageBits = Math.max(0, Math.floor(Math.log2(pageBytesMax / shard.recordBytes)));
    return { ...shard, present: createRowSet(), pageBits, pages: [] as Uint8Array[] };
  });
  const done = { read: 0, written: 0 };
  const store: RecordStore = {
    stamp: undefined,
    read(at, rows, records, found) {
      const shard = ofShard(shards, at);
      checkBatch(shard, rows, records, found);
      for (const [i, row] of rows.entries()) {
        found[i] = shard.present.has(row) ? 1 : 0;
        if (found[i] === 0) continue;
        records.set(placeOf(shard, row), i * shard.recordBytes);
        done.read++;
      }
    },
    write(at, rows, records) {
      const shard = ofShard(shards, at);
      checkBatch(shard, rows, records);
      for (const [i, row] of rows.entries()) {
        const begin = i * shard.recordBytes;
        placeOf(shard, row).set(records.subarray(begin, begin + shard.recordBytes));
        shard.present.add(row);
      }
      done.written += rows.length;
    },
    remove(at, rows) {
      const shard = ofShard(shards, at);
      checkRows(shard, rows);
      for (const row of rows) shard.present.delete(row);
    },
    count: (at) => ofShard(shards, at).present.size,
    scan(at, rowsMax) {
      const shard = ofShard(shards, at);
      return scanRows(store, at, shard, shard.present, rowsMax);
    },
    sync() {},
    stats: () => ({ ...done, diskBytes: 0 }),
    async close() {
      for (const { pages } of shards) pages.length = 0;
    },
  };
  return store;
}

/** The memory of a row's record. */
function placeOf(
  shard: Pick<RecordShard, "recordBytes"> & { readonly pageBits: number; pages: Uint8Array[] },
  row: number,
): Uint8Array {
  const { recordBytes, pageBits, pages } = shard;
  const index = row >> pageBits;
  const page = pages[index] ?? new Uint8Array(recordBytes << pageBits);
  pages[index] = page;
  const first = (row & ((1 << pageBits) - 1)) * recordBytes;
  return page.subarray(first, first + recordBytes);
}

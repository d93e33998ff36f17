// Opens the record store of a kind.

import { openFileRecords } from "./file-records.ts";
import { createMemoryRecords } from "./memory-records.ts";
import type { RecordStore, RecordStoreOptions } from "./record-store.ts";

/** `file` for tables with dense ids, `rocksdb` for others, `memory` for tests and simulations. */
export type RecordStoreKind = "file" | "rocksdb" | "memory";

/**
 * Opens a store. RocksDB is loaded only by the store that asks for it.
 *
 * @throws InvalidOptionError where this platform has no binary of RocksDB
 * @throws InputUnusableError where a durable store's directory holds the records of other shards
 */
export async function openRecords(
  kind: RecordStoreKind,
  options: RecordStoreOptions,
): Promise<RecordStore> {
  if (kind === "memory") return createMemoryRecords(options);
  if (kind === "file") return openFileRecords(options);
  const { openRocksRecords } = await import("./rocks-records.ts");
  return openRocksRecords(options);
}

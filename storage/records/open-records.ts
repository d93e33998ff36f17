// The SSD tier's stores by name.

import { openFileRecords } from "./file-records.ts";
import type { RecordStore, RecordStoreOptions } from "./record-store.ts";

/** `file`: a place for every row; `rocksdb`: RocksDB. */
export type RecordStoreKind = "file" | "rocksdb";

/** @throws InputUnusableError where RocksDB is asked for on a platform that it is not built for */
export async function openRecords(
  kind: RecordStoreKind,
  options: RecordStoreOptions,
): Promise<RecordStore> {
  if (kind === "file") return openFileRecords(options);
  const { openRocksRecords } = await import("./rocks-records.ts");
  return openRocksRecords(options);
}

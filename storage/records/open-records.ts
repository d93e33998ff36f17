// Opens the record store of a kind, and says which one is taken unasked.

import { type Disk, realDisk } from "../../src/ports/disk.ts";
import { openFileRecords } from "./file-records.ts";
import { createMemoryRecords } from "./memory-records.ts";
import type { RecordStore, RecordStoreOptions } from "./record-store.ts";
import { hasRocks } from "./rocksdb.ts";

/** Stores on a disk. The first one that can be opened is taken unasked. */
export const diskStores = ["rocksdb", "file"] as const;

export type DiskStore = (typeof diskStores)[number];

/** `memory` is for tests and simulations. */
export type RecordStoreKind = DiskStore | "memory";

/**
 * The stores on `disk` that this process can open: without RocksDB where it has no binary, or where
 * the disk is not the machine's own, which RocksDB does not go through.
 */
export async function storesOn(disk: Disk): Promise<readonly DiskStore[]> {
  const isOpen = disk === realDisk && (await hasRocks());
  return diskStores.filter((one) => one !== "rocksdb" || isOpen);
}

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

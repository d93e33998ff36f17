// Opens record stores by kind, and determines the default kind.

import { type Disk, realDisk } from "../../../src/ports/disk.ts";
import { openFileRecords } from "./file-records.ts";
import { createMemoryRecords } from "./memory-records.ts";
import type { RecordStore, RecordStoreOptions } from "./record-store.ts";
import { hasRocks } from "./rocksdb.ts";

/** Stores on disk, in order of preference: the first one that can be opened is the default. */
export const diskStores = ["rocksdb", "file"] as const;

export type DiskStore = (typeof diskStores)[number];

/** `memory`: no disk (memory-records.ts). */
export type RecordStoreKind = DiskStore | "memory";

/**
 * The stores on `disk` that this process can open. RocksDB is left out where it has no binary, or
 * where `disk` is not the machine's own, as RocksDB accesses the file system directly.
 */
export async function storesOn(disk: Disk): Promise<readonly DiskStore[]> {
  const isOpen = disk === realDisk && (await hasRocks());
  return diskStores.filter((one) => one !== "rocksdb" || isOpen);
}

/**
 * Opens a store. RocksDB is loaded only if it is the store's kind.
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

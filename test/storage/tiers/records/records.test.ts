// The record stores, each through the same suite; and guarantees that only some of them make.

import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "ava";
import { createReference } from "../../../../src/kernels/reference/reference.ts";
import { openFileRecords } from "../../../../storage/tiers/records/file-records.ts";
import { createMemoryRecords } from "../../../../storage/tiers/records/memory-records.ts";
import { openRecords } from "../../../../storage/tiers/records/open-records.ts";
import { createRecordCache } from "../../../../storage/tiers/records/record-cache.ts";
import { recordFiles } from "../../../../storage/tiers/records/record-file.ts";
import type { Keep } from "../../../../storage/tiers/records/record-store.ts";
import { startDirectory } from "../../../data/data-files.ts";
import { nativeKernels, rocksDb, testIf } from "../../../helpers/needs.ts";
import {
  type RecordsUnderTest,
  recordShards,
  recordsOf,
  testDurableRecords,
  testRecords,
} from "../../../suites/records.ts";

const native = recordFiles("native");
const portable = recordFiles("portable");

function inDirectory(
  open: (directory: string) => RecordsUnderTest["open"],
): () => RecordsUnderTest {
  return () => {
    const root = mkdtempSync(join(tmpdir(), "osiris-records-"));
    return {
      open: open(join(root, "tier")),
      close: () => rmSync(root, { recursive: true, force: true }),
    };
  };
}

const fileStore = (keep: Keep, files: typeof portable) =>
  inDirectory((directory) => async (shards) => openFileRecords({ directory, shards, keep }, files));

testRecords(test, "memory", () => ({
  open: async (shards) => createMemoryRecords({ shards }),
  close: () => {},
}));
testRecords(test, "a cache of one set for each shard, over memory", () => ({
  open: async (all) => {
    const shards = all.map((shard) => ({ ...shard, rowsMax: shard.rows }));
    const backing = createMemoryRecords({ shards });
    return createRecordCache({
      backing,
      shards,
      bytes: 1,
      policy: "lru",
      kernels: createReference(),
    });
  },
  close: () => {},
}));
for (const [name, files] of [
  ["native file", native],
  ["portable file", portable],
] as const) {
  if (files === undefined) {
    testIf(nativeKernels)(`the record store suites: ${name}`, (t) => t.fail());
    continue;
  }
  testRecords(test, name, fileStore("spill", files));
  testDurableRecords(test, name, fileStore("durable", files));
}

const rocksStore = (keep: Keep) =>
  inDirectory((directory) => (shards) => openRecords("rocksdb", { directory, shards, keep }));

if (rocksDb.isMet()) {
  testRecords(test, "rocksdb", rocksStore("spill"));
  testDurableRecords(test, "rocksdb", rocksStore("durable"));
} else {
  testIf(rocksDb)("the record store suites: rocksdb", (t) => t.fail());
}

testIf(rocksDb)(
  "a RocksDB spill store leaves no file, and clears what a killed process left",
  async (t) => {
    const root = startDirectory(t);
    const directory = join(root, "tier");
    const options = { directory, shards: recordShards, keep: "spill" } as const;
    const first = await openRecords("rocksdb", options);
    first.write(0, Int32Array.of(5), new Uint8Array(36));
    first.sync("a");
    await first.close();
    t.false(existsSync(directory));
    mkdirSync(join(directory, "rocksdb"), { recursive: true });
    writeFileSync(join(directory, "rocksdb", "CURRENT"), "what a killed process left");
    const second = await openRecords("rocksdb", options);
    t.is(second.count(0), 0);
    await second.close();
  },
);

testIf(nativeKernels)("the native and the portable store read each other's files", async (t) => {
  if (native === undefined) throw new Error("There are no native kernels.");
  const root = startDirectory(t);
  const rows = Int32Array.of(0, 1, 2, 9, 400, 39_999);
  for (const [writer, reader] of [
    [native, portable],
    [portable, native],
  ] as const) {
    const options = {
      directory: join(root, "tier"),
      shards: recordShards,
      keep: "durable",
    } as const;
    const first = openFileRecords(options, writer);
    for (const [at, shard] of recordShards.entries()) {
      const some = rows.filter((row) => row < shard.rows);
      first.write(at, some, recordsOf(shard, some, 3));
    }
    first.sync("a");
    await first.close();
    const second = openFileRecords(options, reader);
    for (const [at, shard] of recordShards.entries()) {
      const some = rows.filter((row) => row < shard.rows);
      const records = new Uint8Array(some.length * shard.recordBytes);
      second.read(at, some, records, new Uint8Array(some.length));
      t.deepEqual(records, recordsOf(shard, some, 3));
    }
    await second.close();
    rmSync(options.directory, { recursive: true });
  }
});

test("a spill store leaves no file, not even while it is open", async (t) => {
  const root = startDirectory(t);
  const directory = join(root, "tier");
  const store = openFileRecords({ directory, shards: recordShards, keep: "spill" });
  store.write(0, Int32Array.of(5), new Uint8Array(36));
  store.sync("a");
  t.deepEqual(readdirSync(directory), []);
  t.true(store.stats().diskBytes > 0);
  await store.close();
  t.false(existsSync(directory));
});

test("a row far out in a large table takes the disk space of one row", async (t) => {
  const root = startDirectory(t);
  const shards = [{ name: "huge", rows: 1_000_000_000, recordBytes: 260 }];
  const store = openFileRecords({ directory: join(root, "tier"), shards, keep: "spill" });
  store.write(0, Int32Array.of(999_999_999), new Uint8Array(260));
  t.is(store.count(0), 1);
  t.true(store.stats().diskBytes <= 64 << 10, `${store.stats().diskBytes} bytes`);
  await store.close();
});

test("batches read and written past the page cache have the same bytes", async (t) => {
  const root = startDirectory(t);
  const [shard] = recordShards;
  if (shard === undefined) throw new Error("There is no shard");
  const store = openFileRecords({
    directory: join(root, "tier"),
    shards: [shard],
    keep: "spill",
    pageCache: false,
  });
  const rows = Int32Array.from({ length: 3000 }, (_, i) => 33 * i);
  store.write(0, rows, recordsOf(shard, rows, 1));
  const records = new Uint8Array(rows.length * shard.recordBytes);
  store.read(0, rows, records, new Uint8Array(rows.length));
  t.deepEqual(records, recordsOf(shard, rows, 1));
  await store.close();
});

// Disk faults under record stores: full, unreadable, damaged, missing. Each raises an error with a
// code, and every row that is read is the row that was written.

import { spawnSync } from "node:child_process";
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import test, { type ExecutionContext } from "ava";
import { openFileRecords } from "../../../../storage/tiers/records/file-records.ts";
import { openRecords } from "../../../../storage/tiers/records/open-records.ts";
import { type OpenRecordFile, recordFiles } from "../../../../storage/tiers/records/record-file.ts";
import type { RecordShard } from "../../../../storage/tiers/records/record-store.ts";
import { startDirectory } from "../../../data/data-files.ts";
import { linux, rocksDb, testIf } from "../../../helpers/needs.ts";
import { readRows, recordOf, recordsOf } from "../../../suites/records.ts";

const shard: RecordShard = { name: "user", rows: 100_000, recordBytes: 260 };
const stride = 264;
const rows = Int32Array.from({ length: 500 }, (_, i) => 7 * i);

function place(t: ExecutionContext): string {
  const root = startDirectory(t);
  return join(root, "tier");
}

const kinds = [
  ["native", recordFiles("native")],
  ["portable", recordFiles("portable")],
] as const;

for (const [name, files] of kinds) {
  if (files === undefined) continue;

  const open = (directory: string) =>
    openFileRecords({ directory, shards: [shard], keep: "durable" }, files);

  /** Writes a durable store and closes it; returns the path of its records file. */
  const written = async (directory: string) => {
    const store = open(directory);
    store.write(0, rows, recordsOf(shard, rows, 1));
    store.sync("step 3");
    await store.close();
    return join(directory, "shard-0.rows");
  };

  for (const [what, damage] of [
    ["a flipped bit", (bytes: Uint8Array) => bytes.set([(bytes[70] ?? 0) ^ 4], 70)],
    ["a sector of zeros", (bytes: Uint8Array) => bytes.fill(0)],
    ["another row's record", (bytes: Uint8Array, other: Uint8Array) => bytes.set(other)],
  ] as const) {
    test(`${name} file: ${what} is found, and neighbouring rows are read`, async (t) => {
      const directory = place(t);
      const file = openSync(await written(directory), "r+");
      const [bytes, other] = [new Uint8Array(stride), new Uint8Array(stride)];
      readSync(file, bytes, 0, stride, 70 * stride);
      readSync(file, other, 0, stride, 77 * stride);
      damage(bytes, other);
      writeSync(file, bytes, 0, stride, 70 * stride);
      closeSync(file);
      const store = open(directory);
      t.is(store.stamp, "step 3");
      const [before] = readRows(store, 0, shard, Int32Array.of(63));
      t.deepEqual(before, recordOf(shard, 63, 1));
      const error = t.throws(() => void readRows(store, 0, shard, rows), {
        code: "RECORD_CORRUPT",
      });
      t.regex(error?.message ?? "", /^Expected row 70 of `user` in .*shard-0\.rows as it was/);
      t.is(store.stamp, undefined, "a damaged store has no stamp");
      t.throws(() => void readRows(store, 0, shard, Int32Array.of(70)), { code: "RECORD_CORRUPT" });
      await store.close();
      const again = open(directory);
      t.is(again.count(0), 0);
      await again.close();
    });
  }

  test(`${name} file: a truncated file is found`, async (t) => {
    const directory = place(t);
    rmSync(await written(directory));
    closeSync(openSync(join(directory, "shard-0.rows"), "w"));
    const store = open(directory);
    t.throws(() => void readRows(store, 0, shard, rows), { code: "RECORD_CORRUPT" });
    await store.close();
  });

  testIf(linux)(
    `${name} file: a full disk is named, and rows that it refused are not read`,
    async (t) => {
      const directory = place(t);
      mkdirSync(directory);
      symlinkSync("/dev/full", join(directory, "shard-0.rows"));
      const store = open(directory);
      t.throws(() => store.write(0, rows, recordsOf(shard, rows, 1)), {
        code: "TIER_DISK_FULL",
        message: /^Expected room for row 0 of `user` in .*the disk is full \(ENOSPC\)/,
      });
      t.is(store.count(0), 0);
      t.throws(() => void readRows(store, 0, shard, Int32Array.of(7)), { code: "TIER_DISK_FULL" });
      t.deepEqual(readRows(store, 0, shard, Int32Array.of(8)), [undefined]);
      t.throws(() => store.sync("step 4"), { code: "TIER_DISK_FULL" });
      await store.close();
    },
  );

  testIf(linux)(`${name} file: an unreadable disk is named`, async (t) => {
    const directory = place(t);
    const path = await written(directory);
    rmSync(path);
    symlinkSync("/proc/self/mem", path); // No memory is mapped there, so reading fails with EIO.
    const store = open(directory);
    const error = t.throws(() => void readRows(store, 0, shard, rows), { code: "TIER_READ" });
    t.regex(error?.message ?? "", /^Cannot read row 0 of `user` from .*shard-0\.rows \(EIO\)/);
    await store.close();
  });

  test(`${name} file: a missing directory is named when rows should be durable`, async (t) => {
    const directory = place(t);
    const store = open(directory);
    store.write(0, rows, recordsOf(shard, rows, 1));
    rmSync(directory, { recursive: true });
    t.throws(() => store.sync("step 3"), { code: "TIER_WRITE" });
    t.is(store.stamp, undefined);
    t.deepEqual(readRows(store, 0, shard, Int32Array.of(7)), [recordOf(shard, 7, 1)]);
    await store.close();
    t.false(existsSync(directory));
  });
}

test("rows of a failed write are refused until they are written again", async (t) => {
  const open = recordFiles("auto");
  let room = 3;
  // The first rows of the batch reach the disk, the others do not.
  const small: OpenRecordFile = (...given) => {
    const file = open(...given);
    const write: typeof file.write = (batch, records) => {
      const outcome = file.write(batch.subarray(0, room), records);
      return room < batch.length ? { at: room, code: "ENOSPC" } : outcome;
    };
    return { ...file, write };
  };
  const directory = place(t);
  const store = openFileRecords({ directory, shards: [shard], keep: "spill" }, small);
  const some = Int32Array.of(1, 2, 3, 4, 5);
  room = 5;
  store.write(0, some, recordsOf(shard, some, 1));
  room = 3;
  const next = Int32Array.of(2, 3, 4, 5, 6);
  t.throws(() => store.write(0, next, recordsOf(shard, next, 2)), { code: "TIER_DISK_FULL" });
  t.deepEqual(readRows(store, 0, shard, Int32Array.of(1)), [recordOf(shard, 1, 1)]);
  for (const row of next) {
    t.throws(() => void readRows(store, 0, shard, Int32Array.of(row)), { code: "TIER_DISK_FULL" });
  }
  room = 5;
  store.write(0, next, recordsOf(shard, next, 2));
  t.deepEqual(readRows(store, 0, shard, Int32Array.of(1, 2, 6)), [
    recordOf(shard, 1, 1),
    recordOf(shard, 2, 2),
    recordOf(shard, 6, 2),
  ]);
  await store.close();
});

// RocksDB ----

/** Writes a durable database and closes it; returns its files with this suffix. */
async function writtenRocks(directory: string, suffix: string): Promise<string[]> {
  const store = await openRocks(directory);
  store.write(0, everyRow, recordsOf(shard, everyRow, 1));
  store.sync("step 3");
  await store.close();
  // The next open turns the log into an SST file.
  if (suffix === ".sst") await (await openRocks(directory)).close();
  const folder = join(directory, "rocksdb");
  const names = readdirSync(folder).filter((name) => name.endsWith(suffix));
  return names.map((name) => join(folder, name));
}

const openRocks = (directory: string) =>
  openRecords("rocksdb", { directory, shards: [shard], keep: "durable" });

const everyRow = Int32Array.from({ length: 5000 }, (_, i) => i);

testIf(rocksDb)("rocksdb: a flipped bit in a table is found", async (t) => {
  const directory = place(t);
  const [path] = await writtenRocks(directory, ".sst");
  if (path === undefined) throw new Error("There is no table");
  const file = openSync(path, "r+");
  const byte = new Uint8Array(1);
  readSync(file, byte, 0, 1, 40_000);
  writeSync(file, Uint8Array.of((byte[0] ?? 0) ^ 16), 0, 1, 40_000);
  closeSync(file);
  const store = await openRocks(directory);
  const read = () => void readRows(store, 0, shard, everyRow);
  const error = t.throws(read, { code: "RECORD_CORRUPT" });
  t.regex(error?.message ?? "", /^Expected rows of `user` in .*checksum mismatch/);
  t.is(store.stamp, undefined);
  await store.close();
});

testIf(rocksDb)("rocksdb: a truncated log is found, before any row is read", async (t) => {
  const directory = place(t);
  for (const path of await writtenRocks(directory, ".log")) {
    truncateSync(path, Math.floor(statSync(path).size / 2));
  }
  await t.throwsAsync(openRocks(directory), { code: "RECORD_CORRUPT" });
  const again = await openRocks(directory);
  t.is(again.stamp, undefined);
  t.is(again.count(0), 0);
  await again.close();
});

testIf(rocksDb)("rocksdb: a full disk is named, and rows that it refused are not read", (t) => {
  // A separate process with a file size limit: the log hits it as it hits a full disk.
  const directory = place(t);
  const program = new URL("../../../helpers/processes/full-disk-entry.js", import.meta.url);
  const script = 'ulimit -f 64; exec "$0" "$@"';
  const words = ["-c", script, process.execPath, fileURLToPath(program), directory];
  const { stdout, stderr } = spawnSync("sh", words, { encoding: "utf8" });
  t.is(stdout, "TIER_DISK_FULL TIER_DISK_FULL\n", stderr);
});

test("rocksdb: a platform without a binary gets an error that suggests files", (t) => {
  const opener = new URL("../../../../storage/tiers/records/open-records.js", import.meta.url);
  const options = { directory: place(t), shards: [shard], keep: "spill" };
  const script = `
    const { openRecords } = await import(${JSON.stringify(opener)});
    await openRecords("rocksdb", ${JSON.stringify(options)}).catch((error) => {
      process.stdout.write(error.code + ": " + error.message);
    });`;
  const words = ["--input-type=module", "-e", script];
  const env = { ...process.env, npm_config_arch: "mips" }; // The binding reads this variable.
  const { stdout, stderr } = spawnSync(process.execPath, words, { encoding: "utf8", env });
  t.regex(stdout, /^INVALID_OPTION: RocksDB has no binary for .*leave `tiers\.ssd` out/, stderr);
});

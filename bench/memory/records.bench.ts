// Question: what share of the speed of RocksDB's binding and of the file system do the row stores
// below memory reach? Records of 260 bytes (64 weights and one number of optimizer state), in
// sorted batches of random rows; in the page cache, and past it (`.cold`).

import { join } from "node:path";
import { temporaryHome } from "../../storage/disk/temporary-home.ts";
import { openFileRecords } from "../../storage/tiers/records/file-records.ts";
import type { RecordStore, RecordStoreOptions } from "../../storage/tiers/records/record-store.ts";
import { openRocksRecords, rocksOptions } from "../../storage/tiers/records/rocks-records.ts";
import { openRocks } from "../../storage/tiers/records/rocksdb.ts";
import { type Measurement, together } from "../bench.ts";
import { limit } from "../limits/limits.ts";
import { type BenchRow, rowOf } from "../row.ts";

const recordBytes = 260;
const batchRows = 4096;
const rounds = 15;
const limitSeconds = 1;
/** Rows of the file: larger than any processor cache, and written in seconds. */
const fileRows = 2_000_000;
const rocksRows = 1_000_000;

/** `file.read`, `file.write`: against bare system calls; if cold, against pages of the disk. */
export function fileMeasurement(): Measurement {
  const names = ["file.read", "file.write", "file.read.cold", "file.write.cold"];
  return { names, seconds: 30, measure: fileRecordRows };
}

async function* fileRecordRows(isWanted: (name: string) => boolean) {
  for (const pageCache of [true, false]) {
    const nameOf = (what: "read" | "write") => `file.${what}${pageCache ? "" : ".cold"}`;
    if (!isWanted(nameOf("read")) && !isWanted(nameOf("write"))) continue;
    yield* await inDirectory(async (directory) => {
      const store = openFileRecords({ ...optionsOf(join(directory, "ours"), fileRows), pageCache });
      fill(store, fileRows);
      const [read, write] = measured(store, fileRows, pageCache ? rounds : 5);
      await store.close();
      const bare = (what: "read" | "write") => {
        const kind = pageCache ? what : `page${what === "read" ? "Read" : "Write"}`;
        const bytes = fileRows * (recordBytes + 4);
        return limit("file", kind, join(directory, "bare"), bytes, limitSeconds) / 1e3;
      };
      const row = (what: "read" | "write", ours: readonly number[]) => {
        const limitIs = pageCache
          ? `bare p${what} in C`
          : `${what}s of 4 KiB past the page cache, 64 at a time`;
        const named = { name: nameOf(what), unit: "krows/s", limitIs };
        return rowOf(named, ours, [Math.max(0, bare(what))]);
      };
      return [row("read", read), row("write", write)];
    });
  }
}

/** Runs `body` in a directory of its own. */
async function inDirectory<Result>(body: (path: string) => Promise<Result>): Promise<Result> {
  using home = temporaryHome("records-");
  return await body(home.path);
}

/** `rocksdb.multiGet`, `rocksdb.write`: against the binding called with the same batches. */
export function rocksMeasurement(): Measurement {
  return together(["rocksdb.multiGet", "rocksdb.write"], 30, rocksRecordRows);
}

function rocksRecordRows(): Promise<BenchRow[]> {
  return inDirectory(async (directory) => {
    const store = await openRocksRecords(optionsOf(join(directory, "ours"), rocksRows));
    fill(store, rocksRows);
    const db = await openRocks(join(directory, "bare"), rocksOptions);
    const memory = new Uint8Array(batchRows * recordBytes).fill(3);
    const values = Array.from({ length: batchRows }, (_, i) => {
      return memory.subarray(i * recordBytes, (i + 1) * recordBytes);
    });
    const bareWrite = (keys: readonly Uint8Array[]) => {
      const batch = db.batch();
      for (const [i, key] of keys.entries()) batch._put(key, values[i] ?? memory);
      batch._writeSync({ sync: false });
      batch._closeSync();
    };
    for (const rows of allRows(rocksRows)) bareWrite(keysOf(rows));
    const found = new Uint8Array(batchRows);
    const ours: [number[], number[]] = [[], []];
    const bare: [number[], number[]] = [[], []];
    for (let round = 0; round < rounds; round++) {
      const rows = randomRows(rocksRows, round);
      const keys = keysOf(rows);
      ours[0].push(rate(() => store.read(0, rows, memory, found)));
      bare[0].push(rate(() => db._getManySync(keys, { valueEncoding: "buffer", fillCache: true })));
      ours[1].push(rate(() => store.write(0, rows, memory)));
      bare[1].push(rate(() => bareWrite(keys)));
    }
    await store.close();
    await db.close();
    const named = { unit: "krows/s", limitIs: "the binding, with keys and values made before" };
    return [
      rowOf({ name: "rocksdb.multiGet", ...named }, ours[0], bare[0]),
      rowOf({ name: "rocksdb.write", ...named }, ours[1], bare[1]),
    ];
  });
}

function optionsOf(directory: string, rows: number): RecordStoreOptions {
  return { directory, shards: [{ name: "bench", rows, recordBytes }], keep: "spill" };
}

function measured(store: RecordStore, rows: number, rounds: number): [number[], number[]] {
  const records = new Uint8Array(batchRows * recordBytes);
  const found = new Uint8Array(batchRows);
  const read: number[] = [];
  const written: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const batch = randomRows(rows, round);
    read.push(rate(() => store.read(0, batch, records, found)));
    written.push(rate(() => store.write(0, batch, records)));
  }
  return [read, written];
}

/** Thousands of rows a second. */
function rate(body: () => unknown): number {
  const startMs = performance.now();
  body();
  return batchRows / (performance.now() - startMs);
}

function fill(store: RecordStore, rows: number): void {
  const records = new Uint8Array(batchRows * recordBytes).map((_, i) => 31 * i + (i >> 8));
  for (const batch of allRows(rows)) store.write(0, batch, records);
}

function* allRows(rows: number): Iterable<Int32Array> {
  for (let first = 0; first < rows; first += batchRows) {
    const count = Math.min(batchRows, rows - first);
    yield Int32Array.from({ length: count }, (_, i) => first + i);
  }
}

/** Ascending, distinct rows that differ from round to round, but not from run to run. */
function randomRows(rows: number, round: number): Int32Array {
  const chosen = new Set<number>();
  for (let word = round + 1; chosen.size < batchRows; ) {
    word = (Math.imul(word, 1_664_525) + 1_013_904_223) >>> 0;
    chosen.add(Math.floor((word / 2 ** 32) * rows));
  }
  return Int32Array.from(chosen).sort();
}

function keysOf(rows: Int32Array): Uint8Array[] {
  return Array.from(rows, (row) => {
    const key = new Uint8Array(12);
    new DataView(key.buffer).setUint32(8, row);
    return key;
  });
}

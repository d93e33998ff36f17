// Where rows rest below a device's memory: the contract of its stores. A record is one row's
// weights and optimizer state, as stored: bytes that nobody here looks into.

import type { RowSet } from "../../src/embedding/rows/row-set.ts";
import type { Disk } from "../../src/ports/disk.ts";

/**
 * `spill`: the records die with the store, which is a cache of the checkpoint. `durable`: those of
 * the last `sync` outlive the process, as long as nothing was written after it.
 */
export type Keep = "spill" | "durable";

/** A shard's records: all of `recordBytes`, of rows 0 … rows-1. */
export interface RecordShard {
  /** As errors name it: a table's, for example. */
  readonly name: string;
  /** At most 2³¹ - 1. */
  readonly rows: number;
  readonly recordBytes: number;
}

export interface RecordStoreOptions {
  /** The store's own: made where missing. What a `spill` store finds there is removed. */
  readonly directory: string;
  readonly shards: readonly RecordShard[];
  readonly keep: Keep;
  /**
   * False: what a batch read or wrote leaves the page cache behind it, so that each goes to the
   * disk, as those of a table far larger than memory do. For measurements; left out: true.
   */
  readonly pageCache?: boolean;
  /** Of stores of files. RocksDB has the machine's own. @default the machine's own */
  readonly disk?: Disk;
}

/** What a store did since it was opened, and what it takes. Counts are records. */
export interface RecordStats {
  readonly read: number;
  readonly written: number;
  readonly diskBytes: number;
}

/**
 * Records of the shards of one device, below its memory. One thread owns it, and waits for the
 * disk in its calls. Rows are ascending and distinct, and `records` holds theirs one after the
 * other; neither is kept.
 *
 * A refusal of the disk is a TierDiskFullError, TierReadError or TierWriteError, bytes that are
 * not those written a RecordCorruptError. After a failed write the rows of its batch cannot be
 * read until they were written again: what is half there is never served.
 */
export interface RecordStore {
  /** The `sync` that what is here equals; undefined where it equals none. */
  readonly stamp: string | undefined;
  /**
   * Reads the records of `rows` (N) of shard `at`: found[i] = 1 and the record at
   * records[i * recordBytes] where the row has one, found[i] = 0 and nothing there else.
   */
  read(at: number, rows: Int32Array, records: Uint8Array, found: Uint8Array): void;
  /** Writes the records of `rows` (N), new ones or in place of those that are there. */
  write(at: number, rows: Int32Array, records: Uint8Array): void;
  /** `rows` (N) of shard `at` have no record from now on; those that had none stay so. */
  remove(at: number, rows: Int32Array): void;
  /** How many rows have a record. */
  count(at: number): number;
  /**
   * All records of a shard, ascending by row, in chunks of at most `rowsMax`, whose memory the
   * next chunk reuses. Nothing may be written meanwhile.
   */
  scan(at: number, rowsMax: number): Iterable<RecordChunk>;
  /**
   * Makes everything written so far outlive the process, under a name; does nothing of a `spill`
   * store. The first write after it takes the name away again.
   */
  sync(stamp: string): void;
  stats(): RecordStats;
  /** Ends the store. Of a `spill` store nothing is left. */
  close(): Promise<void>;
}

export interface RecordChunk {
  readonly rows: Int32Array;
  readonly records: Uint8Array;
}

/** Throws a RangeError where a batch is not what a store takes: a bug of the caller. */
export function checkBatch(
  shard: RecordShard,
  rows: Int32Array,
  records: Uint8Array,
  found?: Uint8Array,
): void {
  checkRows(shard, rows);
  const bytes = rows.length * shard.recordBytes;
  if (records.length < bytes || (found !== undefined && found.length < rows.length)) {
    throw new RangeError(
      `Expected ${bytes} bytes for ${rows.length} records of \`${shard.name}\`, ` +
        `got ${records.length}`,
    );
  }
}

/** The same of rows alone. */
export function checkRows(shard: RecordShard, rows: Int32Array): void {
  let before = -1;
  for (const row of rows) {
    if (row <= before || row >= shard.rows) {
      throw new RangeError(
        `Expected ascending, distinct rows of \`${shard.name}\` in 0..${shard.rows - 1}, ` +
          `got ${row} after ${before}`,
      );
    }
    before = row;
  }
}

/** `scan` by way of `read`. */
export function* scanRows(
  store: Pick<RecordStore, "read">,
  at: number,
  { recordBytes }: RecordShard,
  present: RowSet,
  rowsMax: number,
): Iterable<RecordChunk> {
  const chunk = new Int32Array(rowsMax);
  const records = new Uint8Array(rowsMax * recordBytes);
  const found = new Uint8Array(rowsMax);
  let from = 0;
  for (;;) {
    const count = present.list(from, chunk);
    if (count === 0) return;
    const rows = chunk.subarray(0, count);
    store.read(at, rows, records, found);
    yield { rows, records: records.subarray(0, count * recordBytes) };
    from = (rows.at(-1) ?? 0) + 1;
  }
}

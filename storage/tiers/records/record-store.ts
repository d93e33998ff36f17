// The backing store of a device's memory: the contract of all record stores. A record is the bytes
// of one row's weights and optimizer state. Record stores never interpret them.

import type { RowSet } from "../../../src/embedding/rows/row-set.ts";
import type { Disk } from "../../../src/ports/disk.ts";

/**
 * `spill`: the records end with the store, which is a cache of the checkpoint. `durable`: the
 * records of the last `sync` outlive the process, as long as nothing was written after it.
 */
export type Keep = "spill" | "durable";

/** One shard of records: rows 0 … rows-1, each record of `recordBytes`. */
export interface RecordShard {
  /** The name in errors, for example a table's. */
  readonly name: string;
  /** At most 2³¹ - 1. */
  readonly rows: number;
  readonly recordBytes: number;
}

export interface RecordStoreOptions {
  /**
   * The store's own directory, created if missing. A `spill` store discards records found there.
   */
  readonly directory: string;
  readonly shards: readonly RecordShard[];
  readonly keep: Keep;
  /**
   * False: each batch drops its pages from the page cache, so that every access goes to the disk,
   * as with a table far larger than memory. For measurements; left out: true.
   */
  readonly pageCache?: boolean;
  /** The disk of file stores; RocksDB always uses the machine's own. @default the machine's own */
  readonly disk?: Disk;
}

/** Counts of records since the store was opened, and the bytes it takes. */
export interface RecordStats {
  readonly read: number;
  readonly written: number;
  readonly diskBytes: number;
}

/**
 * The records of one device's shards, as its backing store. One thread owns the store, and every
 * call blocks it until the disk has answered. Rows are ascending and distinct; `records` holds one
 * record per row, in the same order. The store keeps neither array.
 *
 * A failure of the disk throws a TierDiskFullError, TierReadError or TierWriteError; damaged bytes
 * throw a RecordCorruptError. After a failed write, the rows of its batch cannot be read until they
 * were written again: half-written records are never returned.
 */
export interface RecordStore {
  /** Stamp of the last `sync`; undefined if records were written since, or there was no `sync`. */
  readonly stamp: string | undefined;
  /**
   * Reads the records of `rows` (N) of shard `at`. Where a row has a record, found[i] = 1 and the
   * record is at records[i * recordBytes]; otherwise found[i] = 0 and those bytes are untouched.
   */
  read(at: number, rows: Int32Array, records: Uint8Array, found: Uint8Array): void;
  /** Writes the records of `rows` (N), new or replacing old ones. */
  write(at: number, rows: Int32Array, records: Uint8Array): void;
  /** Removes the records of `rows` (N) of shard `at`. Rows without a record are ignored. */
  remove(at: number, rows: Int32Array): void;
  /** The number of rows with a record. */
  count(at: number): number;
  /**
   * All records of a shard, ascending by row, in chunks of at most `rowsMax`. The next chunk reuses
   * the memory of the last. Nothing may be written during a scan.
   */
  scan(at: number, rowsMax: number): Iterable<RecordChunk>;
  /**
   * Makes all writes so far outlive the process, under a name; a `spill` store does nothing. The
   * first write after it removes the name again.
   */
  sync(stamp: string): void;
  stats(): RecordStats;
  /** Closes the store. A `spill` store leaves nothing behind. */
  close(): Promise<void>;
}

export interface RecordChunk {
  readonly rows: Int32Array;
  readonly records: Uint8Array;
}

/** Throws a RangeError where a batch breaks the contract: a bug of the caller. */
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

/** The same check for rows without records. */
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

/** Implements `scan` with `read`. */
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

/** The permutation that sorts the rows; undefined: they are ascending. At most 2^21 rows. */
export function ascending(rows: Int32Array): Int32Array | undefined {
  let isSorted = true;
  for (let i = 1; i < rows.length && isSorted; i++) isSorted = (rows[i - 1] ?? 0) < (rows[i] ?? 0);
  if (isSorted) return undefined;
  // Packs row and index into one number, so that sorting needs no comparison function.
  const places = 2 ** 21;
  const keys = new Float64Array(rows.length);
  for (let i = 0; i < rows.length; i++) keys[i] = (rows[i] ?? 0) * places + i;
  keys.sort();
  const order = new Int32Array(rows.length);
  for (let i = 0; i < rows.length; i++) order[i] = (keys[i] ?? 0) % places;
  return order;
}

/** Gathers the elements at the indices `places`. */
export function elementsAt(from: Int32Array, places: Int32Array): Int32Array {
  const out = new Int32Array(places.length);
  for (let i = 0; i < places.length; i++) out[i] = from[places[i] ?? 0] ?? 0;
  return out;
}

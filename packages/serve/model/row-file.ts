// The rows of a served table on disk, for tables that exceed their memory budget. The file is a
// copy of the checkpoint's rows and lives as long as the model that reads it.
//
//   copy 0 of row 0 | copy 0 of row 1 | … | copy 1 of row 0 | copy 1 of row 1 | …
//   each: its seal (record-file.ts) and its record; a hole if the row has no such copy
//
// Invariants
//   D1. The copy of a row that a version reads is never written: a delta writes the other copy.
//   D2. The file is unlinked once it is open, so a killed process leaves nothing behind.

import { join } from "node:path";
import {
  createRowSet,
  type Disk,
  type DiskFile,
  diskCode,
  RecordCorruptError,
  type RowSet,
  refusal,
  sealOf,
} from "../../../internal.ts";

/** The copy of each row that one version uses. A row without a copy has its initial value. */
export class RowCopies {
  readonly #copies: readonly [RowSet, RowSet];

  constructor(copies: readonly [RowSet, RowSet] = [createRowSet(), createRowSet()]) {
    this.#copies = copies;
  }

  /** The copy that this version uses; -1: the row has no copy. */
  of(row: number): -1 | 0 | 1 {
    const [zero, one] = this.#copies;
    if (zero.has(row)) return 0;
    return one.has(row) ? 1 : -1;
  }

  /** The copy that may be written while this version is read. D1 */
  spareOf(row: number): 0 | 1 {
    return this.#copies[0].has(row) ? 1 : 0;
  }

  /** Switches the row to its other copy. */
  turn(row: number): void {
    const to = this.spareOf(row);
    this.#copies[to].add(row);
    this.#copies[1 - to]?.delete(row);
  }

  /** A copy of this state, to be changed for the next version. */
  clone(): RowCopies {
    const [zero, one] = this.#copies;
    return new RowCopies([createRowSet(zero.encode()), createRowSet(one.encode())]);
  }
}

/** Most records of one read; they are read concurrently. */
export const readRowsMax = 256;

const isLittle = new Uint8Array(new Uint32Array([1]).buffer)[0] === 1;
const prefix = "osiris-served-";
let opened = 0;

export class RowFile {
  readonly #file: DiskFile;
  readonly #what: string;
  readonly #tableRows: number;
  readonly #recordBytes: number;
  readonly #stride: number;
  #bytes = new Uint8Array(0);

  /** Creates a file in a directory, which is created if missing. @throws TierWriteError */
  constructor(
    disk: Disk,
    directory: string,
    { name, rows, recordBytes }: { name: string; rows: number; recordBytes: number },
  ) {
    this.#what = `the rows of \`${name}\``;
    this.#tableRows = rows;
    this.#recordBytes = recordBytes;
    this.#stride = 4 + recordBytes;
    const path = join(directory, `${prefix}${disk.writer}.${opened++}.rows`);
    this.#file = this.#on("write", path, () => {
      disk.makeDirectory(directory);
      removeStale(disk, directory);
      const file = disk.open(path, "write");
      disk.remove(path); // D2
      return file;
    });
  }

  /**
   * Writes records of ascending rows, each to the copy that `copyOf` returns.
   * @throws TierDiskFullError, TierWriteError
   */
  write(rows: Int32Array, records: Uint8Array, copyOf: (row: number) => 0 | 1): void {
    const [stride, recordBytes] = [this.#stride, this.#recordBytes];
    if (this.#bytes.length < rows.length * stride)
      this.#bytes = new Uint8Array(rows.length * stride);
    const seals = new DataView(this.#bytes.buffer);
    let [from, first] = [0, 0];
    const flush = (end: number) => {
      const run = this.#bytes.subarray(from * stride, end * stride);
      if (end > from) this.#on("write", this.#file.path, () => this.#file.write(run, first));
      from = end;
    };
    for (const [i, row] of rows.entries()) {
      const at = this.#offsetOf(row, copyOf(row));
      if (i === from || at !== first + (i - from) * stride) {
        flush(i);
        first = at;
      }
      const record = records.subarray(i * recordBytes, (i + 1) * recordBytes);
      seals.setUint32(i * stride, sealOf(row, record), isLittle);
      this.#bytes.set(record, i * stride + 4);
    }
    flush(rows.length);
  }

  /**
   * Reads at most `readRowsMax` records, each from its copy in `copies`, without blocking the
   * thread.
   * @throws TierReadError, RecordCorruptError
   */
  async read(rows: Int32Array, copies: RowCopies): Promise<Uint8Array> {
    const [stride, recordBytes] = [this.#stride, this.#recordBytes];
    const bytes = new Uint8Array(rows.length * stride);
    const records = new Uint8Array(rows.length * recordBytes);
    const seals = new DataView(bytes.buffer);
    const read = async (row: number, i: number) => {
      const read = bytes.subarray(i * stride, (i + 1) * stride);
      const record = read.subarray(4);
      try {
        await this.#file.readLater(read, this.#offsetOf(row, copies.of(row) === 1 ? 1 : 0));
      } catch (error) {
        throw this.#refusal("read", this.#file.path, error);
      }
      if (seals.getUint32(i * stride, isLittle) !== sealOf(row, record)) {
        const what = `row ${row} of ${this.#what}`;
        throw new RecordCorruptError(what, this.#file.path, "its checksum is wrong");
      }
      records.set(record, i * recordBytes);
    };
    // `allSettled`, so that no read is still in flight when the caller gets the first failure.
    const ends = await Promise.allSettled(Array.from(rows, read));
    for (const end of ends) if (end.status === "rejected") throw end.reason;
    return records;
  }

  close(): void {
    this.#file.close();
  }

  #offsetOf(row: number, copy: 0 | 1): number {
    return (copy * this.#tableRows + row) * this.#stride;
  }

  #on<T>(action: "read" | "write", path: string, body: () => T): T {
    try {
      return body();
    } catch (error) {
      throw this.#refusal(action, path, error);
    }
  }

  #refusal(action: "read" | "write", path: string, cause: unknown): unknown {
    const code = diskCode(cause);
    return code === undefined ? cause : refusal(action, this.#what, path, code, { cause });
  }
}

/** Removes files of processes that died before they unlinked their files. */
function removeStale(disk: Disk, directory: string): void {
  for (const name of disk.list(directory)) {
    if (!name.startsWith(prefix)) continue;
    const [writer = ""] = name.slice(prefix.length).split(".");
    if (disk.isGone(writer)) disk.remove(join(directory, name));
  }
}

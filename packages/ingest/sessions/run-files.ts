// Reads and writes runs, which are files of records in the order of their keys. A record is the
// lengths of its key and its row, 32 bits each, then the key and the row.

import { type Disk, type DiskFile, InputUnusableError } from "../../../internal.ts";

/** A row with its sort key. */
export interface KeyedRow {
  readonly key: Buffer;
  readonly row: Buffer;
}

export const recordHeadBytes = 8;

/** Bytes of the write buffer. */
const writtenBytes = 2 ** 20;

/** Writes a run. It is on disk after `end`. */
export class RunWriter {
  readonly #file: DiskFile;
  readonly #memory = Buffer.allocUnsafe(writtenBytes);
  #waiting = 0;
  #bytes = 0;

  constructor(disk: Disk, path: string) {
    this.#file = disk.open(path, "write");
  }

  /** Appends a record, including its lengths. */
  add(record: Uint8Array): void {
    if (this.#waiting + record.length > this.#memory.length) this.#flush();
    if (record.length > this.#memory.length) {
      this.#file.write(record, this.#bytes);
      this.#bytes += record.length;
      return;
    }
    this.#memory.set(record, this.#waiting);
    this.#waiting += record.length;
  }

  /** Flushes and syncs the file. Returns its size in bytes. */
  end(): number {
    this.#flush();
    this.#file.sync();
    return this.#bytes;
  }

  close(): void {
    this.#file.close();
  }

  #flush(): void {
    if (this.#waiting === 0) return;
    this.#file.write(this.#memory.subarray(0, this.#waiting), this.#bytes);
    this.#bytes += this.#waiting;
    this.#waiting = 0;
  }
}

/** Reads a run from a given record on. */
export class RunReader {
  readonly #file: DiskFile;
  readonly #size: number;
  #memory: Buffer;
  /** File offset of `#memory`, and the number of valid bytes in it. */
  #start: number;
  #held = 0;
  /** File offset of the current record. */
  #at: number;
  #head: KeyedRow | undefined;
  #record: Buffer = Buffer.alloc(0);

  constructor(disk: Disk, path: string, { from, bytes }: { from: number; bytes: number }) {
    this.#file = disk.open(path, "read");
    this.#size = this.#file.size();
    this.#memory = Buffer.allocUnsafe(bytes);
    this.#start = from;
    this.#at = from;
    this.#read();
  }

  /** The current record; undefined: the run is exhausted. Valid until `next`. */
  get head(): KeyedRow | undefined {
    return this.#head;
  }

  /** The bytes of the current record. */
  get record(): Buffer {
    return this.#record;
  }

  /** File offset of the current record. */
  get at(): number {
    return this.#at;
  }

  next(): void {
    this.#at += this.#record.length;
    this.#read();
  }

  close(): void {
    this.#file.close();
  }

  #read(): void {
    this.#head = undefined;
    this.#record = this.#memory.subarray(0, 0);
    if (this.#at >= this.#size) return;
    this.#hold(recordHeadBytes);
    const begin = this.#at - this.#start;
    const keyLength = this.#memory.readUInt32LE(begin);
    const length = recordHeadBytes + keyLength + this.#memory.readUInt32LE(begin + 4);
    this.#hold(length);
    const record = this.#memory.subarray(this.#at - this.#start, this.#at - this.#start + length);
    const row = recordHeadBytes + keyLength;
    this.#record = record;
    this.#head = { key: record.subarray(recordHeadBytes, row), row: record.subarray(row) };
  }

  /** Reads until `bytes` bytes of the current record are in memory. */
  #hold(bytes: number): void {
    const begin = this.#at - this.#start;
    if (begin + bytes <= this.#held) return;
    const kept = this.#memory.subarray(begin, this.#held);
    const into = bytes > this.#memory.length ? Buffer.allocUnsafe(2 * bytes) : this.#memory;
    into.set(kept);
    this.#memory = into;
    this.#start = this.#at;
    this.#held = kept.length;
    const wanted = into.subarray(this.#held, Math.min(into.length, this.#size - this.#start));
    this.#held += this.#file.read(wanted, this.#start + this.#held);
    if (this.#held >= bytes) return;
    const { path } = this.#file;
    const message = `Cannot resume from ${path}: it ends within a row`;
    throw new InputUnusableError(path, `${message}; remove its directory, and try again`);
  }
}

// Flat files of records, read and written in batches: native/record-file.h where it is built, or
// plain calls of Node, many times slower. Row r of a file lies at r * stride:
//
//   CRC32C of the row's number (4 bytes) and its record, never 0 · the record · up to 4 bytes
//
// Numbers have the machine's byte order, as records have. Files have holes where no row is.

import { fdatasyncSync, readSync, writeSync } from "node:fs";
import { getSystemErrorName } from "node:util";
import { loadAddon } from "../../src/kernels/native.ts";

/** What became of a batch. */
export interface RecordOutcome {
  /** Index in the batch of the first row that failed; -1 where none did. */
  readonly at: number;
  /** Why the system refused it, `ENOSPC` for example; undefined: bytes are not those written. */
  readonly code?: string | undefined;
}

/** An open file's records. Rows ascend; record i of a batch is at records[i * recordBytes]. */
export interface RecordFiles {
  /** Reads the rows that are `wanted` (1, else 0). */
  read(
    descriptor: number,
    recordBytes: number,
    rows: Int32Array,
    wanted: Uint8Array,
    records: Uint8Array,
  ): RecordOutcome;
  write(
    descriptor: number,
    recordBytes: number,
    rows: Int32Array,
    records: Uint8Array,
  ): RecordOutcome;
  /** Writes and forgets what the page cache has of a file; the portable ones only write it. */
  dropCached(descriptor: number): void;
}

/** `auto` takes the native ones where they are built; `native` is undefined where they are not. */
export function openRecordFiles(choice: "auto" | "portable"): RecordFiles;
export function openRecordFiles(choice: "native"): RecordFiles | undefined;
export function openRecordFiles(choice: "auto" | "native" | "portable"): RecordFiles | undefined {
  const native = choice === "portable" ? undefined : createNative();
  return choice === "native" ? native : (native ?? portable);
}

function createNative(): RecordFiles | undefined {
  const { readRecords, writeRecords, dropCached } = loadAddon() ?? {};
  if (readRecords === undefined || writeRecords === undefined) return undefined;
  const outcome = new Float64Array(3);
  const told = (): RecordOutcome => {
    const [at = -1, error = 0] = outcome;
    return { at, code: error === 0 ? undefined : getSystemErrorName(-error) };
  };
  return {
    read(descriptor, recordBytes, rows, wanted, records) {
      readRecords(outcome, descriptor, recordBytes, rows, wanted, records);
      return told();
    },
    write(descriptor, recordBytes, rows, records) {
      writeRecords(outcome, descriptor, recordBytes, rows, records);
      return told();
    },
    dropCached: (descriptor) => void dropCached?.(descriptor),
  };
}

/** From one row's begin to the next one's. */
function strideOf(recordBytes: number): number {
  return Math.ceil((4 + recordBytes) / 4) * 4;
}

const portable: RecordFiles = {
  read(descriptor, recordBytes, rows, wanted, records) {
    const stride = strideOf(recordBytes);
    const span = new Uint8Array(stride);
    const seal = new DataView(span.buffer);
    for (const [i, row] of rows.entries()) {
      if (wanted[i] === 0) continue;
      span.fill(0);
      try {
        readSpan(descriptor, span, row * stride);
      } catch (error) {
        return { at: i, code: codeOf(error) };
      }
      const record = span.subarray(4, 4 + recordBytes);
      if (seal.getUint32(0, isLittle) !== sealOf(row, record)) return { at: i };
      records.set(record, i * recordBytes);
    }
    return { at: -1 };
  },
  write(descriptor, recordBytes, rows, records) {
    const stride = strideOf(recordBytes);
    const span = new Uint8Array(stride);
    const seal = new DataView(span.buffer);
    for (const [i, row] of rows.entries()) {
      const record = records.subarray(i * recordBytes, (i + 1) * recordBytes);
      seal.setUint32(0, sealOf(row, record), isLittle);
      span.set(record, 4);
      try {
        for (let done = 0; done < stride; ) {
          done += writeSync(descriptor, span, done, stride - done, row * stride + done);
        }
      } catch (error) {
        return { at: i, code: codeOf(error) };
      }
    }
    return { at: -1 };
  },
  dropCached: (descriptor) => fdatasyncSync(descriptor),
};

/** Where the file ends, the rest stays as it is. */
function readSpan(descriptor: number, span: Uint8Array, offset: number): void {
  for (let done = 0; done < span.length; ) {
    const count = readSync(descriptor, span, done, span.length - done, offset + done);
    if (count === 0) return;
    done += count;
  }
}

const isLittle = new Uint8Array(new Uint32Array([1]).buffer)[0] === 1;
const number = new Int32Array(1);
const numberBytes = new Uint8Array(number.buffer);

/** The seal of a record: never 0, which is what a hole has. */
function sealOf(row: number, record: Uint8Array): number {
  number[0] = row;
  const crc = ~crc32c(crc32c(-1, numberBytes), record) >>> 0;
  return crc === 0 ? 1 : crc;
}

const table = Int32Array.from({ length: 256 }, (_, byte) => {
  let entry = byte;
  for (let bit = 0; bit < 8; bit++) entry = (entry >>> 1) ^ (entry & 1 ? 0x82f63b78 : 0);
  return entry;
});

function crc32c(from: number, bytes: Uint8Array): number {
  let crc = from;
  for (const byte of bytes) crc = (crc >>> 8) ^ (table[(crc ^ byte) & 255] ?? 0);
  return crc;
}

function codeOf(error: unknown): string {
  if (error instanceof Error && "code" in error && "syscall" in error) return String(error.code);
  throw error;
}

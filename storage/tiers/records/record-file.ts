// Flat files of records, read and written in batches: by native/tiers/record-file.h where the addon
// is built, or by calls of the disk port, many times slower. Row r of a file is at r * stride:
//
//   CRC32C of the row's number (4 bytes) and its record, never 0 · the record · up to 4 bytes
//
// Numbers have the machine's byte order, as records have. A row without a record is a hole.

import { closeSync, fdatasyncSync, fstatSync, openSync } from "node:fs";
import { getSystemErrorName } from "node:util";
import { loadAddon } from "../../../src/ports/addon.ts";
import { crc32c } from "../../../src/ports/crc32c.ts";
import { type Disk, type OpenMode, realDisk } from "../../../src/ports/disk.ts";
import { diskCode } from "../../../src/ports/disk-refusals.ts";

export interface RecordOutcome {
  /** Index in the batch of the first row that failed; -1 where none did. */
  readonly at: number;
  /** The system's error code, `ENOSPC` for example. Undefined: a row's bytes are damaged. */
  readonly code?: string | undefined;
}

/** An open file's records. Rows ascend; record i of a batch is at records[i * recordBytes]. */
export interface RecordFile {
  /** Reads the rows with `wanted` 1; the others have 0. */
  read(rows: Int32Array, wanted: Uint8Array, records: Uint8Array): RecordOutcome;
  write(rows: Int32Array, records: Uint8Array): RecordOutcome;
  /** Returns once all writes survive a power cut. */
  sync(): void;
  /** Writes the file's dirty pages and drops its page cache; the portable files only write. */
  dropCached(): void;
  /** Bytes on disk. The portable files count their holes, too. */
  bytes(): number;
  close(): void;
}

/** Opens a file of records, or makes an empty one. */
export type OpenRecordFile = (
  path: string,
  recordBytes: number,
  mode: Extract<OpenMode, "write" | "update">,
) => RecordFile;

/**
 * Chooses between native and portable files. `auto` takes the native ones where the addon is built
 * and the disk is the machine's own, the only disk they can reach. `native` is undefined where it
 * is not built.
 */
export function recordFiles(choice: "auto" | "portable", disk?: Disk): OpenRecordFile;
export function recordFiles(choice: "native"): OpenRecordFile | undefined;
export function recordFiles(
  choice: "auto" | "native" | "portable",
  disk: Disk = realDisk,
): OpenRecordFile | undefined {
  const isPortable = choice === "portable" || disk !== realDisk;
  const native = isPortable ? undefined : nativeFiles();
  return choice === "native" ? native : (native ?? portableFiles(disk));
}

/** Drops a file's page cache where there are native calls; otherwise writes its dirty pages. */
export function dropCached(descriptor: number): void {
  (loadAddon()?.dropCached ?? fdatasyncSync)(descriptor);
}

const flags = { write: "w+", update: "r+" } as const;

function nativeFiles(): OpenRecordFile | undefined {
  const addon = loadAddon();
  const [readRecords, writeRecords] = [addon?.readRecords, addon?.writeRecords];
  if (readRecords === undefined || writeRecords === undefined) return undefined;
  const outcome = new Float64Array(3);
  const outcomeOf = (): RecordOutcome => {
    const [at = -1, error = 0] = outcome;
    return { at, code: error === 0 ? undefined : getSystemErrorName(-error) };
  };
  return (path, recordBytes, mode) => {
    const descriptor = openSync(path, flags[mode]);
    return {
      read(rows, wanted, records) {
        readRecords(outcome, descriptor, recordBytes, rows, wanted, records);
        return outcomeOf();
      },
      write(rows, records) {
        writeRecords(outcome, descriptor, recordBytes, rows, records);
        return outcomeOf();
      },
      sync: () => fdatasyncSync(descriptor),
      dropCached: () => dropCached(descriptor),
      bytes: () => fstatSync(descriptor).blocks * 512,
      close: () => closeSync(descriptor),
    };
  };
}

/** Bytes from the start of a row to the start of the next. */
function strideOf(recordBytes: number): number {
  return Math.ceil((4 + recordBytes) / 4) * 4;
}

function portableFiles(disk: Disk): OpenRecordFile {
  return (path, recordBytes, mode) => {
    const file = disk.open(path, mode);
    const stride = strideOf(recordBytes);
    const span = new Uint8Array(stride);
    const seal = new DataView(span.buffer);
    const record = span.subarray(4, 4 + recordBytes);
    return {
      read(rows, wanted, records) {
        for (const [i, row] of rows.entries()) {
          if (wanted[i] === 0) continue;
          span.fill(0); // A row past the end of the file reads as a hole.
          try {
            file.read(span, row * stride);
          } catch (error) {
            return { at: i, code: codeOf(error) };
          }
          if (seal.getUint32(0, isLittle) !== sealOf(row, record)) return { at: i };
          records.set(record, i * recordBytes);
        }
        return { at: -1 };
      },
      write(rows, records) {
        for (const [i, row] of rows.entries()) {
          record.set(records.subarray(i * recordBytes, (i + 1) * recordBytes));
          seal.setUint32(0, sealOf(row, record), isLittle);
          span.fill(0, 4 + recordBytes);
          try {
            file.write(span, row * stride);
          } catch (error) {
            return { at: i, code: codeOf(error) };
          }
        }
        return { at: -1 };
      },
      sync: () => file.sync(),
      dropCached: () => file.sync(),
      bytes: () => file.size(),
      close: () => file.close(),
    };
  };
}

const isLittle = new Uint8Array(new Uint32Array([1]).buffer)[0] === 1;
const number = new Int32Array(1);
const numberBytes = new Uint8Array(number.buffer);

/** The seal of a record: never 0, as holes read as 0. */
export function sealOf(row: number, record: Uint8Array): number {
  number[0] = row;
  const crc = crc32c(record, crc32c(numberBytes));
  return crc === 0 ? 1 : crc;
}

function codeOf(error: unknown): string {
  const code = diskCode(error);
  if (code === undefined) throw error;
  return code;
}

// Files of ids and vectors, for programs that are not Osiris: the contract of their three formats.
//
// n = rows of a chunk, D = columns of a vector, W = floats of a row's optimizer state.

import { InputUnusableError } from "../../src/errors/errors.ts";
import type { Disk, DiskFile } from "../../src/ports/disk.ts";

/** Some rows of a file, in its order. */
export interface FileRows {
  /** (n) */
  readonly ids: BigInt64Array;
  /** (n, D) */
  readonly vectors: Float32Array;
  /** (n, W): states of the elements, then those of the row. Undefined where the file has none. */
  readonly state: Float32Array | undefined;
}

/** What a file of a table holds, known before its first row. */
export interface FileShape {
  /** D */
  readonly dim: number;
  /** W; 0: no state. */
  readonly width: number;
}

/** What is told beside the rows, where a format has a place for it. */
export type FileNotes = Readonly<Record<string, string>>;

/** Writes a file front to back. */
export interface RowFileWriter {
  /** Appends; the caller keeps the arrays. */
  write(rows: FileRows): void;
  finish(): void;
}

/** A file to be read, front to back, any number of times. */
export interface RowFile {
  readonly shape: FileShape;
  /** The rows in chunks that are good until the next one. @throws InputUnusableError */
  chunks(): AsyncIterable<FileRows>;
  /** Where row `at` of the file stands, from 0: `row 8 of users.csv`. */
  placeOf(at: number): string;
  close(): void;
}

/** One format. */
export interface RowFormat {
  /** Whether a writer has to be told beforehand how many rows there will be. */
  readonly isCounted: boolean;
  open(file: DiskFile, shape: FileShape, notes: FileNotes, rows: number): RowFileWriter;
  /** @throws InputUnusableError where it is no such file, or is cut short */
  read(path: string, disk: Disk): Promise<RowFile>;
}

/** Rows that are read at a time: large enough for the disk, small beside the tables. */
export const fileRowsMax = 4096;

/** The refusal of a file that is not as it was expected to be. */
export function unusable(path: string, message: string, cause?: unknown): InputUnusableError {
  return new InputUnusableError(path, message, cause === undefined ? undefined : { cause });
}

/** @throws InputUnusableError */
export function openFile(path: string, disk: Disk): DiskFile {
  try {
    return disk.open(path, "read");
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw unusable(path, `Cannot read ${path}: ${why}`, cause);
  }
}

// The interface of files with ids and vectors for other programs, implemented by three formats.
//
// n = rows of a chunk, D = columns of a vector, W = floats of a row's optimizer state.

import { type Disk, type DiskFile, InputUnusableError } from "../../../internal.ts";

/** Some rows of a file, in the file's order. */
export interface FileRows {
  /** (n) */
  readonly ids: BigInt64Array;
  /** (n, D) */
  readonly vectors: Float32Array;
  /** (n, W): per-element states, then the row's state. Undefined where the file has none. */
  readonly state: Float32Array | undefined;
}

/** The shape of a file's rows, known before the first row. */
export interface FileShape {
  /** D */
  readonly dim: number;
  /** W; 0: no state. */
  readonly width: number;
}

/** Notes stored beside the rows, where the format has a place for them. */
export type FileNotes = Readonly<Record<string, string>>;

/** Writes a file front to back. */
export interface RowFileWriter {
  /** Appends rows. The caller keeps the arrays. */
  write(rows: FileRows): void;
  finish(): void;
}

/** A file open for reading, front to back, any number of times. */
export interface RowFile {
  readonly shape: FileShape;
  /** The rows in chunks; each is valid until the next one. @throws InputUnusableError */
  chunks(): AsyncIterable<FileRows>;
  /** Names the position of row `at`, from 0, for messages: `row 8 of users.csv`. */
  placeOf(at: number): string;
  close(): void;
}

export interface RowFormat {
  /** Whether a writer needs the number of rows beforehand. */
  readonly isCounted: boolean;
  open(file: DiskFile, shape: FileShape, notes: FileNotes, rows: number): RowFileWriter;
  /** @throws InputUnusableError where the file has another format, or is cut short */
  read(path: string, disk: Disk): Promise<RowFile>;
}

/** Rows read at a time: large enough for the disk, small compared with the tables. */
export const fileRowsMax = 4096;

/** The error for a file that does not meet the expectations. */
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

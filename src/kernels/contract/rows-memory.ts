// Where the arrays of rows lie in one piece of shared memory, so that the rows outlive the thread
// that trains them. Every array begins on a cache line of its own.

import { type Precision, weightBytes } from "./precision.ts";
import { quantumColumns } from "./tensor.ts";

/** A piece of shared memory. `at`: a multiple of 4, on a cache line where possible. */
export interface RowsMemory {
  readonly buffer: SharedArrayBuffer;
  readonly at: number;
}

/** Bytes of a cache line. */
export const lineBytes = 64;

/** The arrays of rows in their memory: offsets from its beginning, and bytes of a row. */
export interface RowsExtent {
  /** Weights, or codes of weights. */
  readonly weights: RowsArray;
  readonly exponents: RowsArray;
  readonly state: RowsArray;
  readonly touched: RowsArray;
  /** Bytes of all arrays. */
  readonly bytes: number;
}

export interface RowsArray {
  readonly at: number;
  readonly rowBytes: number;
}

/** The fields of the rows that decide their memory. */
export interface SizedRows {
  readonly rows: number;
  readonly dim: number;
  readonly stateWidth: number;
  /** @default "float32" */
  readonly precision?: Precision;
}

export function rowsExtent({
  rows,
  dim,
  stateWidth,
  precision = "float32",
}: SizedRows): RowsExtent {
  let bytes = 0;
  const next = (rowBytes: number): RowsArray => {
    const at = bytes;
    bytes += wholeLines(rows * rowBytes);
    return { at, rowBytes };
  };
  const weights = next(dim * weightBytes(precision));
  const exponents = next(exponentsOf(precision, dim));
  const state = next(4 * stateWidth);
  const touched = next(1);
  return { weights, exponents, state, touched, bytes };
}

function exponentsOf(precision: Precision, dim: number): number {
  return precision === "int8" ? Math.ceil(dim / quantumColumns) : 0;
}

/** The bytes, rounded up to whole cache lines. */
export function wholeLines(bytes: number): number {
  return Math.ceil(bytes / lineBytes) * lineBytes;
}

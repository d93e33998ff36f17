// Records: the format in which rows move between tiers. A record is one row's stored weights
// (float32, 16-bit codes, or int8 codes followed by the exponents of their quanta; precision.ts),
// padded to 4 bytes, and then its optimizer state in floats, in the machine's byte order. A record
// restores the exact bits of its row.

import type { Key } from "../../ports/random.ts";
import { type Precision, weightBytes } from "./precision.ts";
import type { Rows } from "./tables.ts";
import { quantumColumns } from "./tensor.ts";

/** Bytes of a record's weights, padded: the offset of its state. */
export function recordWeightBytes({ dim, precision }: Pick<Rows, "dim" | "precision">): number {
  const exponents = precision === "int8" ? Math.ceil(dim / quantumColumns) : 0;
  return 4 * Math.ceil((dim * weightBytes(precision) + exponents) / 4);
}

/** Bytes of one record of rows with `stateWidth` state floats: a multiple of 4. */
export function recordBytesOf(
  rows: { readonly dim: number; readonly precision: Precision },
  stateWidth: number,
): number {
  return recordWeightBytes(rows) + 4 * stateWidth;
}

/** Kernels that move records. Byte arrays begin at a multiple of 4. */
export interface RecordKernels {
  /** out (n, recordBytesOf): record i = the row at places[i]. */
  gatherRecords(out: Uint8Array, rows: Rows, places: Int32Array): void;
  /**
   * Sets the row at places[i] (n, distinct) from record at[i] of `records`; `at` left out: record
   * i. Clears the row's `touched`.
   */
  scatterRecords(rows: Rows, places: Int32Array, records: Uint8Array, at?: Int32Array): void;
  /**
   * Initialises the row in slot places[i] (n) as `born` initialises row ids[i], relative to the
   * tile's first row. The rule's state floats become `initialState`, lag and steps of an average 0.
   * Clears the row's `touched`.
   */
  bornAt(
    rows: Rows,
    places: Int32Array,
    ids: Int32Array,
    key: Key,
    purpose: number,
    scale: number,
    initialState: number,
  ): void;
  /** Record toAt[i] of `to` = record fromAt[i] of `from`, for i < count; undefined: record i. */
  moveRecords(
    to: Uint8Array,
    toAt: Int32Array | undefined,
    from: Uint8Array,
    fromAt: Int32Array | undefined,
    count: number,
    bytes: number,
  ): void;
}

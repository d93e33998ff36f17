// Rows on their way between tiers: a record is one row's weights as they are stored, float32,
// 16-bit codes, or int8 codes and then the exponents of their quanta (precision.ts), padded to 4
// bytes; and then the floats of its optimizer's state. In the machine's byte order. What comes
// back from a record has the bits that went into it.

import type { Key } from "../../ports/random.ts";
import { type Precision, weightBytes } from "./precision.ts";
import type { Rows } from "./tables.ts";
import { quantumColumns } from "./tensor.ts";

/** Bytes of a record's weights, padded: where its state begins. */
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

/** Kernels that carry rows. In bytes of memory that begin at a multiple of 4. */
export interface RecordKernels {
  /** out (n, recordBytesOf): record i = the row at places[i]. */
  gatherRecords(out: Uint8Array, rows: Rows, places: Int32Array): void;
  /**
   * The row at places[i] (n, distinct) becomes record at[i] of `records`; left out, record i. It is
   * no longer `touched`.
   */
  scatterRecords(rows: Rows, places: Int32Array, records: Uint8Array, at?: Int32Array): void;
  /**
   * The row at places[i] (n) becomes what `born` makes of row ids[i], counted from the tile's
   * first, each of its state floats `initialState`. It is no longer `touched`.
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

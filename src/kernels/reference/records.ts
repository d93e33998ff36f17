// Converts rows to records and back, in plain loops.

import type { RecordKernels } from "../contract/kernels.ts";
import { encodeRow } from "../contract/precision.ts";
import { recordBytesOf, recordWeightBytes } from "../contract/records.ts";
import { type Rows, ruleStateIn } from "../contract/tables.ts";
import { uniform } from "./dense.ts";
import { type Values, valuesOf } from "./memory.ts";
import type { Round } from "./round.ts";

/** The reference kernels of records in the precision of `round`. */
export function createRecords(round: Round): RecordKernels {
  return {
    gatherRecords(out, rows, places) {
      places.forEach((place, i) => {
        const record = recordAt(out, rows, i);
        const row = rowAt(rows, place);
        if (rows.precision === "float32") record.weights.set(row.weights);
        record.bytes.set(row.codes);
        record.bytes.set(row.exponents, row.codes.length);
        record.bytes.fill(0, row.codes.length + row.exponents.length);
        record.state.set(row.state);
      });
    },

    scatterRecords(rows, places, records, at) {
      places.forEach((place, i) => {
        const record = recordAt(records, rows, at?.[i] ?? i);
        const row = rowAt(rows, place);
        const end = row.codes.length;
        if (rows.precision === "float32") row.weights.set(record.weights);
        row.codes.set(record.bytes.subarray(0, end));
        row.exponents.set(record.bytes.subarray(end, end + row.exponents.length));
        row.state.set(record.state);
        rows.touched[place] = 0;
      });
    },

    bornAt(rows, places, ids, key, purpose, scale, initialState) {
      const { dim, firstRow, firstColumn, tableDim } = rows;
      const drawn = new Float64Array(dim);
      const own = ruleStateIn(rows);
      places.forEach((place, i) => {
        const row = rowAt(rows, place);
        const first = (firstRow + ids[i]!) * tableDim + firstColumn;
        uniform(round, drawn, key, purpose, first, scale);
        if (rows.precision === "float32") row.weights.set(drawn);
        else encodeRow(rows, place, drawn);
        row.state.fill(0).fill(initialState, own.first, own.first + own.width);
        rows.touched[place] = 0;
      });
    },

    moveRecords(to, toAt, from, fromAt, count, bytes) {
      for (let i = 0; i < count; i++) {
        const first = (fromAt?.[i] ?? i) * bytes;
        to.set(from.subarray(first, first + bytes), (toAt?.[i] ?? i) * bytes);
      }
    },
  };
}

/** The fields of record `i`: its weights as float32 or as bytes, and its state. */
function recordAt(records: Uint8Array, rows: Rows, i: number) {
  const width = rows.state.shape[1]!;
  const weightBytes = recordWeightBytes(rows);
  const first = records.byteOffset + i * recordBytesOf(rows, width);
  return {
    weights: new Float32Array(records.buffer, first, rows.precision === "float32" ? rows.dim : 0),
    bytes: new Uint8Array(records.buffer, first, rows.precision === "float32" ? 0 : weightBytes),
    state: new Float32Array(records.buffer, first + weightBytes, width),
  };
}

/**
 * The memory of the row at a slot: its weights, or the bytes of its codes and exponents; its state.
 */
function rowAt(rows: Rows, place: number) {
  const { dim, precision, codes, exponents } = rows;
  const part = (values: Values, width: number): Values =>
    values.subarray(place * width, (place + 1) * width);
  const bytes = (values: Uint16Array | Int8Array, width: number): Uint8Array => {
    const size = values.BYTES_PER_ELEMENT * width;
    return new Uint8Array(values.buffer, values.byteOffset + place * size, size);
  };
  const hasCodes = precision !== "float32";
  return {
    weights: part(valuesOf(rows.weights), hasCodes ? 0 : dim),
    codes: bytes(codes, hasCodes ? dim : 0),
    exponents: bytes(exponents, exponents.length / Math.max(1, rows.rows)),
    state: part(valuesOf(rows.state), rows.state.shape[1]!),
  };
}

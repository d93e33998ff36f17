// The fast path from lines of delimited text to the records of a cache: all lines of a chunk,
// column by column, if each feature has one id per line. A line with anything unusual is not plain:
// it takes the decoder (byte-decoder.ts), which gives the same result or the line's fault.

import {
  lengthsOf,
  numbersOf,
  type PlainRecords,
  placesOf,
  type RecordRoom,
  recordsOf,
  roomFor,
} from "../../columnar/plain-records.ts";
import {
  columnWriter,
  type RecordColumn,
  type RecordMemory,
} from "../../columnar/record-columns.ts";
import type { Columns } from "../columns.ts";
import type { LabelReader } from "../labels.ts";
import type { ByteLines } from "../text-lines.ts";
import { logOf, shortLabels } from "./byte-decoder.ts";
import type { ChunkFields, FieldValues } from "./field-values.ts";

/** Builds the records of a chunk's lines, valid until the next chunk. */
export type LineRecords = (lines: ByteLines) => PlainRecords;

/**
 * Creates a record maker; undefined if lines have more than labels, dense features and single ids.
 */
export function lineRecords(columns: Columns, chunks: ChunkFields): LineRecords | undefined {
  const { json, key, labels, readLabels, dense, categorical } = columns;
  const places = placesOf(columns);
  if (places?.width === undefined || places.denseAt > labels.length) return undefined;
  if (json !== undefined || key !== undefined) return undefined;
  const { denseAt, idsAt } = places;
  const writeColumns = columnWriter();
  const writers = labels.map((field, place) => labelWriter(field, place, readLabels[place]));
  let memory: RecordRoom | undefined;
  let offsets = new Int32Array(1);
  let logs = new Float64Array(0);
  const columnsOf = ({ lines, numbers, ids }: FieldValues): RecordColumn[] => {
    if (logs.length < dense.length * lines) logs = new Float64Array(dense.length * lines);
    if (offsets.length <= lines) offsets = Int32Array.from({ length: 2 * lines }, (_, i) => i);
    const found = lengthsOf(places);
    for (const [i, field] of dense.entries()) {
      const [from, end] = [i * lines, (i + 1) * lines];
      if (field.log) takeLogs(logs, numbers, from, end);
      found.push(numbersOf((field.log ? logs : numbers).subarray(from, end), field, denseAt));
    }
    for (let feature = 0; feature < categorical.length; feature++) {
      const rows = ids.subarray(feature * lines, (feature + 1) * lines);
      const at = idsAt + feature;
      found.push({ kind: "ids", at, offsets, entries: { rows }, hasOwn: false });
    }
    return found;
  };
  return (lines) => {
    const values = chunks.of(lines);
    memory = roomFor(lines.count, places, memory);
    const { heads } = memory;
    writeColumns(heads, lines.count, columnsOf(values));
    for (const write of writers) write(heads, values, lines);
    return recordsOf(memory);
  };
}

/** Takes the logarithms of numbers first .. end-1. NaN and infinity are kept. */
function takeLogs(logs: Float64Array, numbers: Float64Array, first: number, end: number): void {
  for (let i = first; i < end; i++) {
    const value = numbers[i] ?? 0;
    logs[i] = Number.isFinite(value) ? logOf(value) : value;
  }
}

/** Creates a writer of a label to all records. Lines that were not parsed become not plain. */
function labelWriter(field: number, place: number, readLabel: LabelReader | undefined) {
  if (readLabel === undefined) throw new TypeError("a label has a reader");
  const short = shortLabels(readLabel);
  return (
    { words, width, isPlain }: RecordMemory,
    { begins, plan, lines }: FieldValues,
    { bytes }: ByteLines,
  ): void => {
    const floats = new Float32Array(words.buffer);
    const step = plan.fields + 1;
    for (let line = 0, first = 0; line < lines; line++, first += step) {
      const begin = begins[first + field] ?? 0;
      const length = (begins[first + field + 1] ?? 0) - 1 - begin;
      const value = length === 1 ? (short[bytes[begin] ?? 0] ?? Number.NaN) : Number.NaN;
      if (begins[first] === -1 || Number.isNaN(value)) isPlain[line] = 0;
      else floats[line * width + place] = value;
    }
  };
}

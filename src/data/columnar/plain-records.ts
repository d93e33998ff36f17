// The short way from columns to the records of a cache: all rows of a batch, column by column,
// where each feature has one id a row. A row of which anything is unusual is no plain row: it goes
// through the row encoder, which defines what every record is.

import type { Fault } from "../text/faults.ts";
import { type BagReader, textWay } from "./bag-reader.ts";
import type { Column } from "./column.ts";
import type { CategoricalField, DenseField, FieldColumns } from "./named-columns.ts";

/** The records of a batch, valid until the next batch. */
export interface PlainRecords {
  /** (rows x width): a record's labels, dense features, lengths and ids (cache/cache-format.ts). */
  readonly words: Int32Array;
  readonly width: number;
  /** (rows): 1 where a row's record is here. */
  readonly isPlain: Uint8Array;
}

/** No row has a record. */
export const noRecords: PlainRecords = {
  words: new Int32Array(0),
  width: 0,
  isPlain: new Uint8Array(0),
};

/** Makes the records of a batch; undefined where its columns have another form. */
export type RecordMaker = (
  columnOf: (field: number) => Column,
  rows: number,
) => PlainRecords | undefined;

/** The words of one column's values in all records. */
interface Place {
  readonly words: Int32Array;
  readonly floats: Float32Array;
  readonly width: number;
  /** The place of the value in each record. */
  readonly at: number;
  readonly isPlain: Uint8Array;
}

/** Writes a column's values of some rows. */
type Write = (first: number, end: number) => void;

/** Rows whose columns are written one after the other while their records are in a core's cache. */
const rowsTogether = 512;

/** The maker of records; undefined where rows have more than classes, numbers and single ids. */
export function recordMaker(
  columns: FieldColumns,
  bags: readonly BagReader[],
  labelOf: (place: number, column: Column) => (row: number) => number | Fault,
): RecordMaker | undefined {
  const { labels, dense, categorical, weight, group } = columns;
  if (weight !== undefined || group !== undefined || !categorical.every(isSingle)) return undefined;
  const denseWords = dense.reduce((sum, { missing }) => sum + (missing === "indicator" ? 2 : 1), 0);
  const features = categorical.length;
  const [denseAt, lengthsAt] = [labels.length, labels.length + denseWords];
  const idsAt = lengthsAt + Math.ceil(features / 2);
  const width = idsAt + features;
  let words = new Int32Array(0);
  let floats = new Float32Array(0);
  let isPlain = new Uint8Array(0);
  const placeOf = (at: number): Place => ({ words, floats, width, at, isPlain });
  const writersOf = (columnOf: (field: number) => Column): Write[] | undefined => {
    const writers = labels.map((field, i) => {
      return labelWriter(placeOf(i), labelOf(i, columnOf(field)));
    });
    for (const field of dense) {
      const column = columnOf(field.field);
      if (column.form !== "numbers") return undefined;
      writers.push(numberWriter(placeOf(denseAt + field.at), column.values, field));
    }
    for (let at = lengthsAt; at < idsAt; at++) {
      const isHalf = at === idsAt - 1 && features % 2 === 1;
      writers.push(sameWriter(placeOf(at), isHalf ? 1 : 1 | (1 << 16)));
    }
    for (const [feature, field] of categorical.entries()) {
      const column = columnOf(field.field);
      const rowsOf = bags[feature]?.rowsOf;
      if (column.form === "numbers" || column.weights !== undefined || rowsOf === undefined) {
        return undefined;
      }
      writers.push(idWriter(placeOf(idsAt + feature), rowsOf(column), column.offsets, field));
    }
    return writers;
  };
  return (columnOf, rows) => {
    if (isPlain.length < rows) {
      words = new Int32Array(rows * width);
      floats = new Float32Array(words.buffer);
      isPlain = new Uint8Array(rows);
    }
    isPlain.fill(1, 0, rows);
    const writers = writersOf(columnOf);
    if (writers === undefined) return undefined;
    for (let first = 0; first < rows; first += rowsTogether) {
      for (const write of writers) write(first, Math.min(first + rowsTogether, rows));
    }
    return { words, width, isPlain };
  };
}

function isSingle({ isWide, list, separator, weightSeparator }: CategoricalField): boolean {
  const isList = list !== undefined || separator !== undefined || weightSeparator !== undefined;
  return !isWide && !isList;
}

function labelWriter(
  { floats, width, at, isPlain }: Place,
  labelOf: (row: number) => number | Fault,
): Write {
  return (first, end) => {
    for (let row = first, to = at + first * width; row < end; row++, to += width) {
      const label = labelOf(row);
      if (typeof label === "number") floats[to] = label;
      else isPlain[row] = 0;
    }
  };
}

/** As `denseFill` of row-encoder.ts. */
function numberWriter(
  { floats, width, at, isPlain }: Place,
  values: Float64Array,
  { log, missing }: DenseField,
): Write {
  const absent = missing === "mean" ? Number.NaN : 0;
  const hasIndicator = missing === "indicator";
  return (first, end) => {
    for (let row = first, to = at + first * width; row < end; row++, to += width) {
      const value = values[row] ?? Number.NaN;
      const isThere = Number.isFinite(Math.fround(value));
      if (isThere) floats[to] = log ? Math.log1p(Math.max(value, 0)) : value;
      else if (Number.isNaN(value) && missing !== "reject") floats[to] = absent;
      else isPlain[row] = 0;
      if (hasIndicator) floats[to + 1] = isThere ? 0 : 1;
    }
  };
}

function sameWriter({ words, width, at }: Place, value: number): Write {
  return (first, end) => {
    for (let row = first, to = at + first * width; row < end; row++, to += width) words[to] = value;
  };
}

/** As `bagFill` of row-encoder.ts: a row without an id has row 0 of its own, or is not plain. */
function idWriter(
  { words, width, at, isPlain }: Place,
  ids: Int32Array,
  offsets: Int32Array,
  { missing }: CategoricalField,
): Write {
  return (first, end) => {
    let from = offsets[first] ?? 0;
    for (let row = first, to = at + first * width; row < end; row++, to += width) {
      const next = offsets[row + 1] ?? 0;
      let id = textWay;
      if (next - from === 1) id = ids[from] ?? textWay;
      else if (next === from && missing === "own") id = 0;
      words[to] = id;
      if (id === textWay) isPlain[row] = 0;
      from = next;
    }
  };
}

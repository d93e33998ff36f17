// The short way from columns to the records of a cache: all rows of a batch, column by column,
// where each feature has one id a row. A row of which anything is unusual is no plain row: it goes
// through the row encoder, which defines what every record is.

import type { Fault } from "../text/faults.ts";
import type { BagReader } from "./bag-reader.ts";
import type { Column } from "./column.ts";
import type { CategoricalField, DenseField, FieldColumns } from "./named-columns.ts";
import { columnWriter, type RecordColumn, type RecordMemory } from "./record-columns.ts";

/**
 * The records of a batch, valid until the next batch: a record's labels, dense features, lengths
 * and ids (cache/cache-format.ts).
 */
export type PlainRecords = RecordMemory;

/** No row has a record. */
export const noRecords: PlainRecords = {
  words: new Int32Array(0),
  width: 0,
  isPlain: new Uint8Array(0),
};

/**
 * How many rows from row `first` on, and before row `end`, have records one after the other.
 * `isTaken`: whether a row is to be a sample.
 */
export function plainFrom(
  { isPlain }: PlainRecords,
  first: number,
  end: number,
  isTaken: (row: number) => boolean = () => true,
): number {
  let row = first;
  while (row < end && isPlain[row] === 1 && isTaken(row)) row++;
  return row - first;
}

/** Makes the records of a batch; undefined where its columns have another form. */
export type RecordMaker = (
  columnOf: (field: number) => Column,
  rows: number,
) => PlainRecords | undefined;

/** The maker of records; undefined where rows have more than classes, numbers and single ids. */
export function recordMaker(
  columns: FieldColumns,
  bags: readonly BagReader[],
  labelOf: (place: number, column: Column) => (row: number) => number | Fault,
): RecordMaker | undefined {
  const { labels, dense, categorical } = columns;
  const places = placesOf(columns);
  if (places === undefined) return undefined;
  const { denseAt, idsAt } = places;
  const writeColumns = columnWriter();
  let memory: RecordMemory | undefined;
  const columnsOf = (columnOf: (field: number) => Column): RecordColumn[] | undefined => {
    const found: RecordColumn[] = lengthsOf(places);
    for (const field of dense) {
      const column = columnOf(field.field);
      if (column.form !== "numbers") return undefined;
      const values = field.log ? logsOf(column.values) : column.values;
      found.push(numbersOf(values, field, denseAt));
    }
    for (const [feature, { field, missing }] of categorical.entries()) {
      const column = columnOf(field);
      const rowsOf = bags[feature]?.rowsOf;
      if (column.form === "numbers" || column.weights !== undefined || rowsOf === undefined) {
        return undefined;
      }
      const entries = rowsOf(column);
      const [at, hasOwn] = [idsAt + feature, missing === "own"];
      found.push({ kind: "ids", at, offsets: column.offsets, entries, hasOwn });
    }
    return found;
  };
  return (columnOf, rows) => {
    memory = roomFor(rows, places, memory);
    const found = columnsOf(columnOf);
    if (found === undefined) return undefined;
    for (const [place, field] of labels.entries()) {
      writeLabels(memory, place, labelOf(place, columnOf(field)), rows);
    }
    writeColumns(memory, rows, found);
    return memory;
  };
}

/** The words of a plain record: where its dense features, lengths and ids begin, and its end. */
export interface RecordPlaces {
  readonly denseAt: number;
  readonly lengthsAt: number;
  readonly idsAt: number;
  readonly width: number;
}

/** The places in the records of rows; undefined where rows have more than those have. */
export function placesOf(columns: FieldColumns): RecordPlaces | undefined {
  const { labels, dense, categorical, weight, group } = columns;
  if (weight !== undefined || group !== undefined || !categorical.every(isSingle)) return undefined;
  const denseWords = dense.reduce((sum, { missing }) => sum + (missing === "indicator" ? 2 : 1), 0);
  const features = categorical.length;
  const [denseAt, lengthsAt] = [labels.length, labels.length + denseWords];
  const idsAt = lengthsAt + Math.ceil(features / 2);
  return { denseAt, lengthsAt, idsAt, width: idsAt + features };
}

/** The lengths of bags of one id each, two in a word. */
export function lengthsOf({ lengthsAt, idsAt, width }: RecordPlaces): RecordColumn[] {
  const isOdd = (width - idsAt) % 2 === 1;
  return Array.from({ length: idsAt - lengthsAt }, (_, i) => {
    const at = lengthsAt + i;
    return { kind: "same", at, value: isOdd && at === idsAt - 1 ? 1 : 1 | (1 << 16) };
  });
}

/** Memory for so many records, all of them plain: that of `before`, if it is large enough. */
export function roomFor(
  rows: number,
  { width }: RecordPlaces,
  before: RecordMemory = noRecords,
): RecordMemory {
  const { isPlain } = before;
  const memory =
    isPlain.length >= rows
      ? before
      : { words: new Int32Array(rows * width), width, isPlain: new Uint8Array(rows) };
  memory.isPlain.fill(1, 0, rows);
  return memory;
}

function isSingle({ isWide, list, separator, weightSeparator }: CategoricalField): boolean {
  const isList = list !== undefined || separator !== undefined || weightSeparator !== undefined;
  return !isWide && !isList;
}

function writeLabels(
  { words, width, isPlain }: RecordMemory,
  place: number,
  labelOf: (row: number) => number | Fault,
  rows: number,
): void {
  const floats = new Float32Array(words.buffer);
  for (let row = 0, to = place; row < rows; row++, to += width) {
    const label = labelOf(row);
    if (typeof label === "number") floats[to] = label;
    else isPlain[row] = 0;
  }
}

/** Dense features, whose logarithms are taken where they are to be, as `denseFill` has them. */
export function numbersOf(
  values: Float64Array,
  { at, missing }: Pick<DenseField, "at" | "missing">,
  denseAt: number,
): RecordColumn {
  return {
    kind: "numbers",
    at: denseAt + at,
    values,
    absent: missing === "reject" ? undefined : missing === "mean" ? Number.NaN : 0,
    hasIndicator: missing === "indicator",
  };
}

/** The logarithms of numbers; what float32 does not hold stays as it is. */
function logsOf(values: Float64Array): Float64Array {
  return values.map((value) => {
    return Number.isFinite(Math.fround(value)) ? Math.log1p(Math.max(value, 0)) : value;
  });
}

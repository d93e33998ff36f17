// The fast path from columns to the records of a cache: all rows of a batch, column by column. A
// row with anything unusual is not plain: it takes the row encoder, which defines the content of
// every record.

import { Sample } from "../sample.ts";
import { groupWords } from "../targets.ts";
import type { LineFault } from "../text/faults.ts";
import type { BagColumn, BagReader } from "./bag-reader.ts";
import type { Column } from "./column.ts";
import type { CategoricalField, DenseField, FieldColumns } from "./named-columns.ts";
import { bagWriter, type RecordBags, type RowRecords } from "./record-bags.ts";
import { columnWriter, type RecordColumn, type RecordMemory } from "./record-columns.ts";

/**
 * The records of a batch, valid until the next batch: a record's labels, dense features, lengths
 * and ids (cache/cache-format.ts).
 */
export interface PlainRecords extends RowRecords {
  /**
   * Words of each record if every record has one id per feature; undefined if lengths may differ.
   */
  readonly width: number | undefined;
}

/** The records of an empty batch. */
export const noRecords: PlainRecords = {
  words: new Int32Array(0),
  starts: new Int32Array(1),
  isPlain: new Uint8Array(0),
  width: 0,
};

/**
 * Number of consecutive rows from `first` on, before `end`, that are plain and for which `isTaken`
 * holds: rows that become samples.
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

/** The columns of a batch, by field index. */
export interface BatchColumns {
  columnOf(field: number): Column;
  /**
   * The column of a feature. If runs of equal rows are known, it has one row per run, and `runs`
   * maps each row of the batch to its run.
   */
  bagsOf(field: number): { readonly column: Column; readonly runs?: Int32Array | undefined };
}

/** Fills a part of a sample from a row. Returns the row's fault, if any. */
export type Fill = (sample: Sample, row: number) => LineFault | undefined;

/** The readers and fillers that build the records of a batch. */
export interface RecordSources {
  readonly bags: readonly BagReader[];
  labelOf(place: number, column: Column): (row: number) => number | LineFault;
  /** Fillers of a sample's weight and group, if samples have them. */
  fillsOf(columns: BatchColumns): { readonly weight?: Fill; readonly group?: Fill };
}

/** Builds the records of a batch; undefined if the fast path does not support its columns. */
export type RecordMaker = (columns: BatchColumns, rows: number) => PlainRecords | undefined;

/** Creates a record maker; undefined if ids have 64 bits or texts are split into ids. */
export function recordMaker(fields: FieldColumns, sources: RecordSources): RecordMaker | undefined {
  const { labels, dense, categorical } = fields;
  const places = placesOf(fields);
  if (places === undefined) return undefined;
  const { weightAt, groupAt, denseAt, lengthsAt, idsAt } = places;
  const writeColumns = columnWriter();
  const writeBags = bagWriter();
  let memory: RecordRoom | undefined;
  let words = noRecords.words;

  const columnsOf = (columns: BatchColumns): RecordColumn[] | undefined => {
    const found: RecordColumn[] = [];
    for (const field of dense) {
      const column = columns.columnOf(field.field);
      if (column.form !== "numbers") return undefined;
      const values = field.log ? logsOf(column.values) : column.values;
      found.push(numbersOf(values, field, denseAt));
    }
    if (places.width === undefined) return found;
    found.push(...lengthsOf(places));
    for (const [feature, { field, missing }] of categorical.entries()) {
      const column = columns.columnOf(field);
      const entries = entriesOf(column, sources.bags[feature]);
      if (entries === undefined) return undefined;
      const [at, hasOwn] = [idsAt + feature, missing === "own"];
      found.push({ kind: "ids", at, offsets: entries.offsets, entries: entries.of, hasOwn });
    }
    return found;
  };
  const bagsOf = (columns: BatchColumns): RecordBags[] | undefined => {
    const found: RecordBags[] = [];
    for (const [feature, { field, missing }] of categorical.entries()) {
      const { column, runs } = columns.bagsOf(field);
      const entries = entriesOf(column, sources.bags[feature]);
      if (entries === undefined) return undefined;
      const absent = missing === "own" || missing === "empty" ? missing : "unusual";
      found.push({ offsets: entries.offsets, runs, entries: entries.of, absent });
    }
    return found;
  };
  const writeTargets = (heads: RecordMemory, columns: BatchColumns, rows: number) => {
    for (const [place, field] of labels.entries()) {
      writeLabels(heads, place, sources.labelOf(place, columns.columnOf(field)), rows);
    }
    const { weight: fillWeight, group: fillGroup } = sources.fillsOf(columns);
    if (fillWeight !== undefined) {
      writeFilled(heads, weightAt, rows, fillWeight, (sample) => [sample.sampleWeight]);
    }
    if (fillGroup !== undefined) {
      writeFilled(heads, groupAt, rows, fillGroup, (sample) => sample.group);
    }
  };

  return (columns, rows) => {
    memory = roomFor(rows, places, memory);
    const { heads, starts } = memory;
    const { isPlain } = heads;
    const found = columnsOf(columns);
    if (found === undefined) return undefined;
    const bags = places.width === undefined ? bagsOf(columns) : [];
    if (bags === undefined) return undefined;
    writeTargets(heads, columns, rows);
    writeColumns(heads, rows, found);
    if (places.width !== undefined) return recordsOf(memory);
    const total = writeBags.measure({ starts, isPlain }, rows, idsAt, bags);
    if (total < 0) return undefined;
    if (words.length < total) words = new Int32Array(Math.ceil(1.25 * total));
    writeBags.write({ words, starts, isPlain }, heads, lengthsAt, rows, bags);
    return { words, starts, isPlain, width: undefined };
  };
}

/** First word of each part of a plain record. */
export interface RecordPlaces {
  readonly weightAt: number;
  readonly groupAt: number;
  readonly denseAt: number;
  readonly lengthsAt: number;
  readonly idsAt: number;
  /** Words of a record; undefined if features may hold lists, so that lengths differ. */
  readonly width: number | undefined;
}

/**
 * The layout of plain records; undefined if a feature is not supported (64-bit ids, separators).
 */
export function placesOf(columns: FieldColumns): RecordPlaces | undefined {
  const { labels, dense, categorical, weight, group } = columns;
  if (!categorical.every(isNarrow)) return undefined;
  const denseWords = dense.reduce((sum, { missing }) => sum + (missing === "indicator" ? 2 : 1), 0);
  const weightAt = labels.length;
  const groupAt = weightAt + (weight === undefined ? 0 : 1);
  const denseAt = groupAt + (group === undefined ? 0 : groupWords);
  const lengthsAt = denseAt + denseWords;
  const idsAt = lengthsAt + Math.ceil(categorical.length / 2);
  // Outputs of transforms may be lists, too.
  const areSingles = categorical.every(({ list, isMade }) => !list && isMade !== true);
  const width = areSingles ? idsAt + categorical.length : undefined;
  return { weightAt, groupAt, denseAt, lengthsAt, idsAt, width };
}

/** The bag lengths of records with one id per feature, two lengths per word. */
export function lengthsOf({ lengthsAt, idsAt, width = idsAt }: RecordPlaces): RecordColumn[] {
  const isOdd = (width - idsAt) % 2 === 1;
  return Array.from({ length: idsAt - lengthsAt }, (_, i) => {
    const at = lengthsAt + i;
    return { kind: "same", at, value: isOdd && at === idsAt - 1 ? 1 : 1 | (1 << 16) };
  });
}

/** Memory for records of fixed width, or for the heads of records of variable length. */
export interface RecordRoom {
  readonly heads: RecordMemory;
  /** (rows + 1): starts of records of fixed width. */
  readonly starts: Int32Array;
}

/** Memory for `rows` records, all marked plain. Reuses `before` if it is large enough. */
export function roomFor(
  rows: number,
  { idsAt, width = idsAt }: RecordPlaces,
  before?: RecordRoom,
): RecordRoom {
  const isEnough = before !== undefined && before.heads.isPlain.length >= rows;
  const room = isEnough
    ? before
    : {
        heads: { words: new Int32Array(rows * width), width, isPlain: new Uint8Array(rows) },
        starts: Int32Array.from({ length: rows + 1 }, (_, row) => row * width),
      };
  room.heads.isPlain.fill(1, 0, rows);
  return room;
}

/** Records of fixed width as `PlainRecords`. */
export function recordsOf({ heads, starts }: RecordRoom): PlainRecords {
  return { ...heads, starts };
}

function isNarrow({ isWide, separator, weightSeparator }: CategoricalField): boolean {
  return !isWide && separator === undefined && weightSeparator === undefined;
}

/** The table rows of a column's entries; undefined for a column of numbers or with weights. */
function entriesOf(column: Column, reader: BagReader | undefined) {
  if (column.form === "numbers" || column.weights !== undefined) return undefined;
  const rowsOf = reader?.rowsOf;
  return rowsOf && { of: rowsOf(column satisfies BagColumn), offsets: column.offsets };
}

/** Writes the part of each record that `fill` puts into a sample. */
function writeFilled(
  { words, width, isPlain }: RecordMemory,
  at: number,
  rows: number,
  fill: Fill,
  partOf: (sample: Sample) => ArrayLike<number>,
): void {
  const floats = new Float32Array(words.buffer);
  const sample = new Sample({ dense: 0, features: 0 });
  for (let row = 0; row < rows; row++) {
    if (fill(sample, row) !== undefined) isPlain[row] = 0;
    else floats.set(partOf(sample), row * width + at);
  }
}

function writeLabels(
  { words, width, isPlain }: RecordMemory,
  place: number,
  labelOf: (row: number) => number | LineFault,
  rows: number,
): void {
  const floats = new Float32Array(words.buffer);
  for (let row = 0, to = place; row < rows; row++, to += width) {
    const label = labelOf(row);
    if (typeof label === "number") floats[to] = label;
    else isPlain[row] = 0;
  }
}

/**
 * A dense feature as a `RecordColumn`, by the rules of `denseFill`. Logarithms are already applied.
 */
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

/**
 * Applies log(1 + max(x, 0)). Values that are not finite in float32 are kept, to be handled as
 * faults or missing values.
 */
function logsOf(values: Float64Array): Float64Array {
  return values.map((value) => {
    return Number.isFinite(Math.fround(value)) ? Math.log1p(Math.max(value, 0)) : value;
  });
}

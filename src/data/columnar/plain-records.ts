// The fast path from columns, or from parsed fields of lines, to the records of a cache: all rows
// of a batch, column by column. A row with anything unusual is not plain: it takes the row encoder,
// which defines the content of every record.

import { Sample } from "../sample.ts";
import { groupWords } from "../targets.ts";
import type { LineFault } from "../text/faults.ts";
import type { BagReader } from "./bag-reader.ts";
import type { Column, FieldColumn } from "./column.ts";
import type { CategoricalField, DenseField, FieldColumns } from "./named-columns.ts";
import {
  bagWriter,
  columnWriter,
  type RecordBags,
  type RecordColumn,
  type RecordMemory,
  type RowRecords,
} from "./record-columns.ts";

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

/** Fills a part of a sample from a row. Returns the row's fault, if any. */
export type Fill = (sample: Sample, row: number) => LineFault | undefined;

/** The columns of the current batch, by the index of the feature or label. */
export interface RecordSources {
  readonly readers: readonly BagReader[];
  denseOf(index: number): Column | FieldColumn;
  /**
   * The column of a categorical feature. If runs of equal rows are known, it has one row per run,
   * and `runs` maps each row of the batch to its run.
   */
  runsOf(feature: number): {
    readonly column: Column | FieldColumn;
    readonly runs?: Int32Array | undefined;
  };
  labelOf(place: number): (row: number) => number | LineFault;
  /** Fillers of a sample's weight and group; undefined: samples have none. */
  weightAndGroup(): { readonly weight: Fill | undefined; readonly group: Fill | undefined };
}

/** Builds the records of the current batch; undefined if the fast path does not support it. */
export type RecordMaker = (rows: number) => PlainRecords | undefined;

/** Creates a record maker; undefined if ids have 64 bits or weights. */
export function recordMaker(fields: FieldColumns, sources: RecordSources): RecordMaker | undefined {
  const { labels, dense, categorical } = fields;
  const places = placesOf(fields);
  if (places === undefined) return undefined;
  const { weightAt, groupAt, denseAt, lengthsAt, idsAt, width } = places;
  const writeColumns = columnWriter();
  const writeBags = bagWriter();
  const logs = dense.map(() => new Float64Array(0));
  let memory: RecordRoom | undefined;
  let words = noRecords.words;

  const numbersOf = (index: number, field: DenseField, rows: number): RecordColumn | undefined => {
    const column = sources.denseOf(index);
    const given = column.form === "numbers" ? column.values : numbersIn(column);
    if (given === undefined) return undefined;
    if (field.log && (logs[index]?.length ?? 0) < rows) logs[index] = new Float64Array(rows);
    const values = field.log ? logsOf(logs[index] ?? given, given, rows) : given;
    return {
      kind: "numbers",
      at: denseAt + field.at,
      values,
      absent: field.missing === "reject" ? undefined : field.missing === "mean" ? Number.NaN : 0,
      hasIndicator: field.missing === "indicator",
    };
  };
  const bagsOf = (feature: number, field: CategoricalField): RecordBags | undefined => {
    const { column, runs } = sources.runsOf(feature);
    const found = entriesOf(column, field, sources.readers[feature]);
    const { missing } = field;
    return found && { ...found, runs, absent: missing === "reject" ? "unusual" : missing };
  };
  const writeTargets = (heads: RecordMemory, rows: number) => {
    for (const place of labels.keys()) writeLabels(heads, place, sources.labelOf(place), rows);
    const { weight, group } = sources.weightAndGroup();
    if (weight) writeFilled(heads, weightAt, rows, weight, (sample) => [sample.sampleWeight]);
    if (group) writeFilled(heads, groupAt, rows, group, (sample) => sample.group);
  };

  return (rows) => {
    const numbers = whole(dense.map((field, i) => numbersOf(i, field, rows)));
    const bags = whole(categorical.map((field, feature) => bagsOf(feature, field)));
    if (numbers === undefined || bags === undefined) return undefined;
    memory = roomFor(rows, places, memory);
    const { heads, starts } = memory;
    const { isPlain } = heads;
    writeTargets(heads, rows);
    if (width !== undefined) {
      const ids = bags.map(({ offsets, entries, absent }, feature): RecordColumn => {
        return { kind: "ids", at: idsAt + feature, offsets, entries, hasOwn: absent === "own" };
      });
      writeColumns(heads, rows, [...numbers, ...lengthsOf(places), ...ids]);
      return { ...heads, starts };
    }
    writeColumns(heads, rows, numbers);
    const total = writeBags.measure({ starts, isPlain }, rows, idsAt, bags);
    if (total < 0) return undefined;
    if (words.length < total) words = new Int32Array(Math.ceil(1.25 * total));
    writeBags.write({ words, starts, isPlain }, heads, lengthsAt, rows, bags);
    return { words, starts, isPlain, width };
  };
}

/** All of a list; undefined if some are. */
function whole<Found>(all: readonly (Found | undefined)[]): readonly Found[] | undefined {
  const found = all.filter((one) => one !== undefined);
  return found.length === all.length ? found : undefined;
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

/** The layout of plain records; undefined if a feature has 64-bit ids or weights. */
export function placesOf(columns: FieldColumns): RecordPlaces | undefined {
  const { labels, dense, categorical, weight, group } = columns;
  if (categorical.some((one) => one.isWide || one.weightSeparator !== undefined)) return undefined;
  const denseWords = dense.reduce((sum, { missing }) => sum + (missing === "indicator" ? 2 : 1), 0);
  const weightAt = labels.length;
  const groupAt = weightAt + (weight === undefined ? 0 : 1);
  const denseAt = groupAt + (group === undefined ? 0 : groupWords);
  const lengthsAt = denseAt + denseWords;
  const idsAt = lengthsAt + Math.ceil(categorical.length / 2);
  // Outputs of transforms may be lists, too.
  const areSingles = categorical.every(({ list, separator, isMade }) => {
    return !list && separator === undefined && isMade !== true;
  });
  const width = areSingles ? idsAt + categorical.length : undefined;
  return { weightAt, groupAt, denseAt, lengthsAt, idsAt, width };
}

/** The bag lengths of records with one id per feature, two lengths per word. */
function lengthsOf({ lengthsAt, idsAt, width = idsAt }: RecordPlaces): RecordColumn[] {
  const isOdd = (width - idsAt) % 2 === 1;
  return Array.from({ length: idsAt - lengthsAt }, (_, i) => {
    const at = lengthsAt + i;
    return { kind: "same", at, value: isOdd && at === idsAt - 1 ? 1 : 1 | (1 << 16) };
  });
}

/** Memory for records of fixed width, or for the heads of records of variable length. */
interface RecordRoom {
  readonly heads: RecordMemory;
  /** (rows + 1): starts of records of fixed width. */
  readonly starts: Int32Array;
}

/** Memory for `rows` records, all marked plain. Reuses `before` if it is large enough. */
function roomFor(
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

/** The parsed numbers of a field; undefined for a column that must be read as text. */
function numbersIn(column: Column | FieldColumn): Float64Array | undefined {
  return column.form === "fields" ? column.numbers : undefined;
}

/**
 * The table rows of a column's entries; undefined for a column that must be read as text, or has
 * weights.
 */
function entriesOf(
  column: Column | FieldColumn,
  { separator }: CategoricalField,
  reader: BagReader | undefined,
): Pick<RecordBags, "offsets" | "entries"> | undefined {
  if (column.form === "fields") {
    const { entries } = column;
    return entries && { offsets: entries.offsets, entries: { rows: entries.rows } };
  }
  if (column.form === "numbers" || column.weights !== undefined) return undefined;
  if (separator !== undefined || reader?.rowsOf === undefined) return undefined;
  return { offsets: column.offsets, entries: reader.rowsOf(column) };
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

/** Precomputed log(1 + n) of small integers n. */
const knownLogs = Float32Array.from({ length: 4096 }, (_, value) => Math.log1p(value));

/** log(1 + max(value, 0)) of a dense feature, which is stored as float32. */
export function logOf(value: number): number {
  const positive = Math.max(value, 0);
  // Indexing with a fraction would be a slow property lookup, so only integers use the table.
  const whole = positive | 0;
  const isKnown = whole === positive && whole < knownLogs.length;
  return isKnown ? (knownLogs[whole] ?? 0) : Math.log1p(positive);
}

/**
 * Fills `logs` with `logOf` of the values of `rows` rows. Values that are not finite in float32 are
 * kept, to be handled as faults or missing values.
 */
function logsOf(logs: Float64Array, values: Float64Array, rows: number): Float64Array {
  for (let row = 0; row < rows; row++) {
    const value = values[row] ?? Number.NaN;
    logs[row] = Number.isFinite(Math.fround(value)) ? logOf(value) : value;
  }
  return logs;
}

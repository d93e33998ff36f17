// Writes columns into the records of a cache, many rows at a time: columns of fixed width, and
// after these heads the bags of the rows. The addon writes identically and faster
// (native/ingest/records.h and record-bags.h).
//
// R = rows of a batch, U = its runs of equal rows, each of which is stored once.

import assert from "node:assert/strict";
import { type Addon, loadAddon } from "../../ports/addon.ts";
import { bagIdsMax } from "../sample.ts";
import { type EntryRows, textWay } from "./bag-reader.ts";

/** Memory for records of fixed width, or for the heads of records of variable length. */
export interface RecordMemory {
  /** (rows, width) */
  readonly words: Int32Array;
  readonly width: number;
  /** (rows): 0 if the row is unusual; its words are then undefined. */
  readonly isPlain: Uint8Array;
}

/** A column that fills one or two words of every record; `at` is the first word. */
export type RecordColumn = SameColumn | NumberColumn | IdColumn;

interface SameColumn {
  readonly kind: "same";
  readonly at: number;
  readonly value: number;
}

/** Numbers, stored as float32. A row whose number exceeds the range of float32 is unusual. */
interface NumberColumn {
  readonly kind: "numbers";
  readonly at: number;
  /** (rows): NaN if missing. */
  readonly values: Float64Array;
  /** Replacement of a missing number: 0 or NaN; undefined makes the row unusual. */
  readonly absent: number | undefined;
  /** Whether the next word is the indicator: 1 if the number is missing, else 0. */
  readonly hasIndicator: boolean;
}

/** Table rows of a feature with one id per row. */
interface IdColumn {
  readonly kind: "ids";
  readonly at: number;
  /** (rows + 1): first entry of each row. */
  readonly offsets: Int32Array;
  readonly entries: EntryRows;
  /**
   * Whether a row without an id gets table row 0; otherwise it is unusual. A row with several ids
   * always is.
   */
  readonly hasOwn: boolean;
}

/**
 * Writes columns to the first `rows` records. `isPlain` must be initialised; it is cleared for
 * unusual rows and never set.
 */
export type WriteColumns = (
  out: RecordMemory,
  rows: number,
  columns: readonly RecordColumn[],
) => void;

/**
 * Rows that are written column by column, few enough for their records to stay in the core's cache.
 */
const rowsTogether = 512;

/** The reference writer, in TypeScript, which defines the results. */
export const writeColumns: WriteColumns = (out, rows, columns) => {
  const floats = new Float32Array(out.words.buffer, out.words.byteOffset, out.words.length);
  for (let first = 0; first < rows; first += rowsTogether) {
    const end = Math.min(first + rowsTogether, rows);
    for (const column of columns) {
      if (column.kind === "same") writeSame(out, column, first, end);
      else if (column.kind === "numbers") writeNumbers(out, floats, column, first, end);
      else writeIds(out, column, first, end);
    }
  }
};

function writeSame(
  { words, width }: RecordMemory,
  { at, value }: SameColumn,
  first: number,
  end: number,
): void {
  for (let row = first, to = at + first * width; row < end; row++, to += width) words[to] = value;
}

function writeNumbers(
  { width, isPlain }: RecordMemory,
  floats: Float32Array,
  { at, values, absent, hasIndicator }: NumberColumn,
  first: number,
  end: number,
): void {
  for (let row = first, to = at + first * width; row < end; row++, to += width) {
    const value = values[row] ?? Number.NaN;
    const isThere = Number.isFinite(Math.fround(value));
    if (isThere) floats[to] = value;
    else if (Number.isNaN(value) && absent !== undefined) floats[to] = absent;
    else isPlain[row] = 0;
    if (hasIndicator) floats[to + 1] = isThere ? 0 : 1;
  }
}

function writeIds(
  { words, width, isPlain }: RecordMemory,
  { at, offsets, entries: { rows, codes }, hasOwn }: IdColumn,
  first: number,
  end: number,
): void {
  let from = offsets[first] ?? 0;
  for (let row = first, to = at + first * width; row < end; row++, to += width) {
    const next = offsets[row + 1] ?? 0;
    let id = textWay;
    if (next - from === 1) id = rows[codes === undefined ? from : (codes[from] ?? 0)] ?? textWay;
    else if (next === from && hasOwn) id = 0;
    words[to] = id;
    if (id === textWay) isPlain[row] = 0;
    from = next;
  }
}

/**
 * Integers per column in the plan for the addon: its kind, its word, and two that depend on the
 * kind.
 */
const columnNumbers = 4;
const kinds = { same: 0, numbers: 1, ids: 2 } as const;
const noCodes = new Int32Array(0);

/** The fastest available writer: the addon's if it is built, otherwise `writeColumns`. */
export function columnWriter(addon: Addon | undefined = loadAddon()): WriteColumns {
  if (addon === undefined) return writeColumns;
  return ({ words, width, isPlain }, rows, columns) => {
    // The addon checks array types only: a wrong length would make it touch memory outside them.
    assert(words.length >= rows * width && isPlain.length >= rows, "room for the records");
    const plan = new Int32Array(columns.length * columnNumbers);
    const arrays: (Float64Array | Int32Array)[] = [];
    for (const [i, column] of columns.entries()) {
      const isPair = column.kind === "numbers" && column.hasIndicator;
      assert(column.at + (isPair ? 1 : 0) < width, "a word of the record");
      plan.set([kinds[column.kind], column.at], i * columnNumbers);
      if (column.kind === "same") plan.set([column.value], i * columnNumbers + 2);
      else if (column.kind === "numbers") {
        const { values, absent, hasIndicator } = column;
        assert(values.length >= rows, "a number for each row");
        const ifAbsent = absent === undefined ? 0 : Number.isNaN(absent) ? 2 : 1;
        plan.set([ifAbsent, hasIndicator ? 1 : 0], i * columnNumbers + 2);
        arrays.push(values);
      } else {
        const { offsets, entries, hasOwn } = column;
        const { rows: own, codes } = entries;
        assert(offsets.length > rows, "an offset for each row");
        plan.set([hasOwn ? 1 : 0, codes === undefined ? 0 : 1], i * columnNumbers + 2);
        arrays.push(offsets, own, codes ?? noCodes);
      }
    }
    addon.writeColumns(words, width, isPlain, rows, plan, arrays);
  };
}

/** Records of variable length. */
export interface RowRecords {
  readonly words: Int32Array;
  /** (R + 1): first word of each record, then the end of the last record. */
  readonly starts: Int32Array;
  /** (R): 0 if the row is unusual and therefore has no record. */
  readonly isPlain: Uint8Array;
}

/** The bags of a feature with 32-bit ids and no weights. */
export interface RecordBags {
  /** (R + 1) or, with `runs`, (U + 1): first entry of each row or run. */
  readonly offsets: Int32Array;
  /** (R): the run of each row; undefined if every row has its own entries. */
  readonly runs?: Int32Array | undefined;
  readonly entries: EntryRows;
  /** Handling of a row without entries: a bag with row 0, an empty bag, or an unusual row. */
  readonly absent: "own" | "empty" | "unusual";
}

/** Writes bags after the heads of records. */
export interface BagWriter {
  /**
   * Computes the starts of records with heads of `headWords` words and these bags, and sets
   * `isPlain` to 0 for rows with an unusual bag. Returns the total number of words.
   */
  measure(
    out: Omit<RowRecords, "words">,
    rows: number,
    headWords: number,
    bags: readonly RecordBags[],
  ): number;
  /**
   * Writes measured records: their heads, with the bag lengths from word `lengthsAt` on, and their
   * bags.
   */
  write(
    out: RowRecords,
    heads: Pick<RecordMemory, "words" | "width">,
    lengthsAt: number,
    rows: number,
    bags: readonly RecordBags[],
  ): void;
}

/** The reference writer, in TypeScript, which defines the results. */
export const plainBagWriter: BagWriter = {
  measure({ starts, isPlain }, rows, headWords, bags) {
    starts[0] = 0;
    for (let row = 0; row < rows; row++) {
      let words = headWords;
      for (const bag of bags) {
        const length = isPlain[row] === 1 ? lengthOf(bag, row) : -1;
        if (length < 0) isPlain[row] = 0;
        words += length;
      }
      starts[row + 1] = (starts[row] ?? 0) + (isPlain[row] === 1 ? words : 0);
    }
    return starts[rows] ?? 0;
  },
  write({ words, starts, isPlain }, { words: heads, width }, lengthsAt, rows, bags) {
    for (let row = 0; row < rows; row++) {
      if (isPlain[row] !== 1) continue;
      const start = starts[row] ?? 0;
      for (let i = 0; i < width; i++) words[start + i] = heads[row * width + i] ?? 0;
      words.fill(0, start + lengthsAt, start + width);
      let at = start + width;
      for (const [feature, bag] of bags.entries()) {
        const first = at;
        const [from, end] = entriesAt(bag, row);
        if (from === end && bag.absent === "own") words[at++] = 0;
        for (let entry = from; entry < end; entry++) words[at++] = rowOf(bag.entries, entry);
        const pair = start + lengthsAt + (feature >> 1);
        words[pair] = (words[pair] ?? 0) | ((at - first) << ((feature & 1) * 16));
      }
    }
  },
};

/** Number of ids in a row's bag; -1 if it is unusual. */
function lengthOf(bag: RecordBags, row: number): number {
  const [from, end] = entriesAt(bag, row);
  const length = end - from;
  if (length === 0) return bag.absent === "own" ? 1 : bag.absent === "empty" ? 0 : -1;
  if (length > bagIdsMax) return -1;
  for (let at = from; at < end; at++) if (rowOf(bag.entries, at) === textWay) return -1;
  return length;
}

function entriesAt({ offsets, runs }: RecordBags, row: number): [from: number, end: number] {
  const at = runs === undefined ? row : (runs[row] ?? 0);
  return [offsets[at] ?? 0, offsets[at + 1] ?? 0];
}

function rowOf({ rows, codes }: EntryRows, entry: number): number {
  return rows[codes === undefined ? entry : (codes[entry] ?? 0)] ?? textWay;
}

/** Integers per feature in the plan for the addon. */
const bagNumbers = 3;
const absences = { own: 0, empty: 1, unusual: 2 } as const;
const none = new Int32Array(0);

/** The fastest available writer: the addon's if it is built, otherwise `plainBagWriter`. */
export function bagWriter(addon: Addon | undefined = loadAddon()): BagWriter {
  if (addon === undefined) return plainBagWriter;
  const { measureBags: measure, writeBags: write } = addon;
  const planOf = (bags: readonly RecordBags[], rows: number) => {
    const plan = new Int32Array(bags.length * bagNumbers);
    const arrays: Int32Array[] = [];
    for (const [i, { offsets, runs, entries, absent }] of bags.entries()) {
      const has = (array: Int32Array | undefined) => (array === undefined ? 0 : 1);
      plan.set([absences[absent], has(runs), has(entries.codes)], i * bagNumbers);
      arrays.push(offsets, runs ?? none, entries.rows, entries.codes ?? none);
      assert(runs === undefined ? offsets.length > rows : runs.length >= rows, "a bag a row");
    }
    return [plan, arrays] as const;
  };
  // The addon checks array types and entry indices only: wrong lengths would make it touch memory
  // outside the arrays.
  return {
    measure({ starts, isPlain }, rows, headWords, bags) {
      assert(starts.length > rows && isPlain.length >= rows, "room for the starts");
      return Number(measure(starts, isPlain, rows, headWords, ...planOf(bags, rows)));
    },
    write({ words, starts, isPlain }, heads, lengthsAt, rows, bags) {
      const { width } = heads;
      assert(words.length >= (starts[rows] ?? Infinity), "room for the records");
      assert(heads.words.length >= rows * width, "a head for each record");
      assert(lengthsAt + Math.ceil(bags.length / 2) === width, "lengths at the end of heads");
      write(words, starts, isPlain, rows, heads.words, width, ...planOf(bags, rows));
    },
  };
}

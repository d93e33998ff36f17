// Writes columns into the records of a cache, many rows at a time. The addon writes identically and
// faster (native/ingest/records.h).

import assert from "node:assert/strict";
import { type Addon, loadAddon } from "../../ports/addon.ts";
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
const planNumbers = 4;
const kinds = { same: 0, numbers: 1, ids: 2 } as const;
const noCodes = new Int32Array(0);

/** The fastest available writer: the addon's if it is built, otherwise `writeColumns`. */
export function columnWriter(addon: Addon | undefined = loadAddon()): WriteColumns {
  if (addon === undefined) return writeColumns;
  return ({ words, width, isPlain }, rows, columns) => {
    // The addon checks array types only: a wrong length would make it touch memory outside them.
    assert(words.length >= rows * width && isPlain.length >= rows, "room for the records");
    const plan = new Int32Array(columns.length * planNumbers);
    const arrays: (Float64Array | Int32Array)[] = [];
    for (const [i, column] of columns.entries()) {
      const isPair = column.kind === "numbers" && column.hasIndicator;
      assert(column.at + (isPair ? 1 : 0) < width, "a word of the record");
      plan.set([kinds[column.kind], column.at], i * planNumbers);
      if (column.kind === "same") plan.set([column.value], i * planNumbers + 2);
      else if (column.kind === "numbers") {
        const { values, absent, hasIndicator } = column;
        assert(values.length >= rows, "a number for each row");
        const ifAbsent = absent === undefined ? 0 : Number.isNaN(absent) ? 2 : 1;
        plan.set([ifAbsent, hasIndicator ? 1 : 0], i * planNumbers + 2);
        arrays.push(values);
      } else {
        const { offsets, entries, hasOwn } = column;
        const { rows: own, codes } = entries;
        assert(offsets.length > rows, "an offset for each row");
        plan.set([hasOwn ? 1 : 0, codes === undefined ? 0 : 1], i * planNumbers + 2);
        arrays.push(offsets, own, codes ?? noCodes);
      }
    }
    addon.writeColumns(words, width, isPlain, rows, plan, arrays);
  };
}

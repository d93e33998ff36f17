// Writes the bags of rows into records, after heads of fixed width (record-columns.ts). The addon
// writes identically and faster (native/ingest/record-bags.h).
//
// R = rows of a batch, U = its runs of equal rows, each of which is stored once.

import assert from "node:assert/strict";
import { type Addon, loadAddon } from "../../ports/addon.ts";
import { bagIdsMax } from "../sample.ts";
import { type EntryRows, textWay } from "./bag-reader.ts";
import type { RecordMemory } from "./record-columns.ts";

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
const planNumbers = 3;
const absences = { own: 0, empty: 1, unusual: 2 } as const;
const none = new Int32Array(0);

/** The fastest available writer: the addon's if it is built, otherwise `plainBagWriter`. */
export function bagWriter(addon: Addon | undefined = loadAddon()): BagWriter {
  if (addon === undefined) return plainBagWriter;
  const { measureBags: measure, writeBags: write } = addon;
  const planOf = (bags: readonly RecordBags[], rows: number) => {
    const plan = new Int32Array(bags.length * planNumbers);
    const arrays: Int32Array[] = [];
    for (const [i, { offsets, runs, entries, absent }] of bags.entries()) {
      const has = (array: Int32Array | undefined) => (array === undefined ? 0 : 1);
      plan.set([absences[absent], has(runs), has(entries.codes)], i * planNumbers);
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

// Finds rows whose entries equal those of the row before. The addon compares identically and faster
// (native/ingest/same-rows.h).

import assert from "node:assert/strict";
import { type Addon, loadAddon } from "../../ports/addon.ts";

/** The entries of rows, as 32-bit words. */
export interface RowWords {
  readonly words: Int32Array;
  readonly perEntry: number;
  /** (R + 1): first entry of each row; undefined if each row has one entry. */
  readonly offsets?: Int32Array | undefined;
}

/**
 * Sets same[r] to 0 for each row r in first .. end-1 whose entries differ in any bit from those of
 * row r - 1. Row 0 always counts as different.
 */
export type MarkSame = (same: Uint8Array, first: number, end: number, entries: RowWords) => void;

/** The reference comparison, in TypeScript, which defines the results. */
export const plainMarkSame: MarkSame = (same, first, end, { words, perEntry, offsets }) => {
  for (let row = first; row < end; row++) {
    if (same[row] === 0) continue;
    const begin = (at: number) => perEntry * (offsets === undefined ? at : (offsets[at] ?? 0));
    const [before, from, to] = [begin(row - 1), begin(row), begin(row + 1)];
    let isSame = row > 0 && to - from === from - before;
    for (let i = 0; isSame && i < to - from; i++) isSame = words[from + i] === words[before + i];
    if (!isSame) same[row] = 0;
  }
};

const none = new Int32Array(0);

/** The fastest available comparison: the addon's if it is built, otherwise `plainMarkSame`. */
export function markSame(addon: Addon | undefined = loadAddon()): MarkSame {
  if (addon === undefined) return plainMarkSame;
  return (same, first, end, { words, perEntry, offsets }) => {
    // The addon checks array types only: wrong lengths would make it read memory outside them.
    assert(first >= 0 && end <= same.length, "a mark for each row");
    assert((offsets?.length ?? Infinity) > end, "where each row begins");
    const last = offsets === undefined ? end : (offsets[end] ?? Infinity);
    assert(words.length >= perEntry * last, "the entries of each row");
    addon.markSame(same, first, end, words, perEntry, offsets ?? none);
  };
}

/** Copies the entries of rows: row rows[i] is copied to `out`, from entry outOffsets[i] on. */
export type CopyRows = (
  out: Int32Array,
  outOffsets: Int32Array,
  rows: Int32Array,
  entries: RowWords & { readonly offsets: Int32Array },
) => void;

/** The reference copy, in TypeScript, which defines the results. */
export const plainCopyRows: CopyRows = (out, outOffsets, rows, { words, perEntry, offsets }) => {
  for (let i = 0; i < rows.length; i++) {
    let from = perEntry * (offsets[rows[i] ?? 0] ?? 0);
    const end = perEntry * (outOffsets[i + 1] ?? 0);
    for (let to = perEntry * (outOffsets[i] ?? 0); to < end; to++) out[to] = words[from++] ?? 0;
  }
};

/** The fastest available copy: the addon's if it is built, otherwise `plainCopyRows`. */
export function rowCopier(addon: Addon | undefined = loadAddon()): CopyRows {
  if (addon === undefined) return plainCopyRows;
  return (out, outOffsets, rows, { words, perEntry, offsets }) => {
    // The addon checks array types only: wrong lengths would make it touch memory outside them.
    assert(outOffsets.length > rows.length, "where each row goes");
    assert(out.length >= perEntry * (outOffsets[rows.length] ?? Infinity), "room for the rows");
    assert(words.length >= perEntry * (offsets.at(-1) ?? Infinity), "the entries of each row");
    for (const row of rows) assert(row >= 0 && row + 1 < offsets.length, "a row");
    addon.copyRows(out, outOffsets, rows, words, perEntry, offsets);
  };
}

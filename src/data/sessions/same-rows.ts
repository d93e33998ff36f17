// Which rows have the entries of the row before them. The addon compares faster
// (native/ingest/same-rows.h), and the same.

import assert from "node:assert/strict";
import { type Addon, loadAddon } from "../../ports/addon.ts";

/** The entries of rows, in words of 32 bits. */
export interface RowWords {
  readonly words: Int32Array;
  readonly perEntry: number;
  /** (R + 1): where the entries of each row begin; undefined: each row has one. */
  readonly offsets?: Int32Array | undefined;
}

/**
 * Sets same[r] to 0 for rows first .. end-1 whose entries, bit by bit, are not those of row r - 1.
 * Row 0 has none before it.
 */
export type MarkSame = (same: Uint8Array, first: number, end: number, entries: RowWords) => void;

/** The comparison that defines which rows are the same. */
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

/** The fastest comparison that there is: the addon's, where it is built. */
export function markSame(addon: Addon | undefined = loadAddon()): MarkSame {
  if (addon === undefined) return plainMarkSame;
  return (same, first, end, { words, perEntry, offsets }) => {
    // The addon checks types alone: with wrong lengths it would read other memory.
    assert(first >= 0 && end <= same.length, "a mark for each row");
    assert((offsets?.length ?? Infinity) > end, "where each row begins");
    const last = offsets === undefined ? end : (offsets[end] ?? Infinity);
    assert(words.length >= perEntry * last, "the entries of each row");
    addon.markSame(same, first, end, words, perEntry, offsets ?? none);
  };
}

/**
 * Copies the entries of rows: row i of `out`, which begins at entry outOffsets[i], is row rows[i].
 */
export type CopyRows = (
  out: Int32Array,
  outOffsets: Int32Array,
  rows: Int32Array,
  entries: RowWords & { readonly offsets: Int32Array },
) => void;

/** The copy that defines what is copied. */
export const plainCopyRows: CopyRows = (out, outOffsets, rows, { words, perEntry, offsets }) => {
  for (let i = 0; i < rows.length; i++) {
    let from = perEntry * (offsets[rows[i] ?? 0] ?? 0);
    const end = perEntry * (outOffsets[i + 1] ?? 0);
    for (let to = perEntry * (outOffsets[i] ?? 0); to < end; to++) out[to] = words[from++] ?? 0;
  }
};

/** The fastest copy that there is: the addon's, where it is built. */
export function rowCopier(addon: Addon | undefined = loadAddon()): CopyRows {
  if (addon === undefined) return plainCopyRows;
  return (out, outOffsets, rows, { words, perEntry, offsets }) => {
    // The addon checks types alone: with wrong lengths it would touch other memory.
    assert(outOffsets.length > rows.length, "where each row goes");
    assert(out.length >= perEntry * (outOffsets[rows.length] ?? Infinity), "room for the rows");
    assert(words.length >= perEntry * (offsets.at(-1) ?? Infinity), "the entries of each row");
    for (const row of rows) assert(row >= 0 && row + 1 < offsets.length, "a row");
    addon.copyRows(out, outOffsets, rows, words, perEntry, offsets);
  };
}

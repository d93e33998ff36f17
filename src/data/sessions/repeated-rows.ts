// Runs of equal rows: transforms compute the first row of each run, and the other rows share its
// result (RecD: Zhao et al., MLSys 2023, section 5, O4). Clustered sessions have long runs. Row r
// of an output is a function of row r of the inputs, so this saves time without changing results.
// The addon compares rows identically and faster (native/ingest/same-rows.h).
//
// R = rows, U = runs of equal rows, N = entries of all lists of a column.

import assert from "node:assert/strict";
import { type Addon, loadAddon } from "../../ports/addon.ts";
import type { TransformColumn } from "../transforms/values.ts";

/** Least mean length of a run: with shorter runs, copying costs more than it saves. */
const runsMin = 1.5;
/** Rows that are probed first, to give up early if rows do not repeat. */
const probedRows = 128;

/** (U + 1): first row of each run of equal rows, then the number of rows. */
export type Heads = Int32Array;

/** The runs of rows that are equal in all of these columns; undefined if too few rows repeat. */
export function headsOf(columns: readonly TransformColumn[], rows: number): Heads | undefined {
  if (columns.length === 0) return undefined;
  const mark = markSame();
  const same = new Uint8Array(rows).fill(1);
  const parts = columns.flatMap(partsOf);
  let [count, row] = [0, 0];
  const heads = new Int32Array(rows + 1);
  for (const end of [Math.min(probedRows, rows), rows]) {
    for (const part of parts) mark(same, row, end, part);
    for (; row < end; row++) if (same[row] !== 1) heads[count++] = row;
    if (count * runsMin > end) return undefined;
  }
  heads[count] = rows;
  return heads.subarray(0, count + 1);
}

/** The values of a column as 32-bit words, by row. */
function partsOf(column: TransformColumn): RowWords[] {
  if (column.form === "numbers") return [{ words: wordsOf(column.values), perEntry: 2 }];
  const { offsets } = column;
  const lists = (entries: ArrayBufferView, perEntry: number): RowWords => {
    return { words: wordsOf(entries), perEntry, offsets };
  };
  if (column.form === "lists") return [lists(column.values, 2)];
  const { present, weights } = column;
  // Comparing codes is conservative: a dictionary may hold an id twice, so equal lists may have
  // different codes.
  const own =
    column.form === "texts"
      ? lists(column.codes, 1)
      : column.coded === undefined
        ? lists(column.ids, 2)
        : lists(column.coded.codes, 1);
  return [
    own,
    ...(weights === undefined ? [] : [lists(weights, 1)]),
    ...(present === undefined ? [] : [{ words: Int32Array.from(present), perEntry: 1 }]),
  ];
}

/** The column reduced to the first row of each run (U). */
export function headRows(column: TransformColumn, heads: Heads): TransformColumn {
  return picked(column, heads.subarray(0, -1));
}

/** Expands a column of first rows to all rows (R). */
export function allRows(column: TransformColumn, heads: Heads): TransformColumn {
  return picked(column, runsOf(heads));
}

/** (R): the run of each row. */
function runsOf(heads: Heads): Int32Array {
  const runs = new Int32Array(heads.at(-1) ?? 0);
  for (let run = 0; run + 1 < heads.length; run++) runs.fill(run, heads[run], heads[run + 1]);
  return runs;
}

/** Copies the chosen rows into new memory. */
function picked(column: TransformColumn, chosen: Int32Array): TransformColumn {
  const rows = chosen.length;
  if (column.form === "numbers") {
    const values = new Float64Array(rows);
    for (let row = 0; row < rows; row++) values[row] = column.values[chosen[row] ?? 0] ?? 0;
    return { ...column, values };
  }
  const from = column.offsets;
  const offsets = new Int32Array(rows + 1);
  for (let row = 0; row < rows; row++) {
    const at = chosen[row] ?? 0;
    offsets[row + 1] = (offsets[row] ?? 0) + (from[at + 1] ?? 0) - (from[at] ?? 0);
  }
  const total = offsets[rows] ?? 0;
  const copy = rowCopier();
  /** Copies the entries of the chosen rows. */
  const copied = <Entries extends ArrayBufferView>(entries: Entries, out: Entries): Entries => {
    const perEntry = total === 0 ? 1 : out.byteLength / 4 / total;
    copy(wordsOf(out), offsets, chosen, { words: wordsOf(entries), perEntry, offsets: from });
    return out;
  };
  if (column.form === "lists") {
    return { form: "lists", offsets, values: copied(column.values, new Float64Array(total)) };
  }
  const { weights, present } = column;
  const beside = {
    offsets,
    ...(weights && { weights: copied(weights, new Float32Array(total)) }),
    ...(present && {
      present: Uint8Array.from(chosen, (row) => present[row] ?? 0),
    }),
  };
  if (column.form === "texts") {
    const { form, dictionary, codes } = column;
    return { form, dictionary, codes: copied(codes, new Int32Array(total)), ...beside };
  }
  const { form, ids, coded, isUnsigned } = column;
  return {
    form,
    ids: copied(ids, new BigInt64Array(total)),
    ...(coded && {
      coded: { ...coded, codes: copied(coded.codes, new Int32Array(total)) },
    }),
    ...(isUnsigned !== undefined && { isUnsigned }),
    ...beside,
  };
}

/** The same memory as words of 32 bits. */
function wordsOf({ buffer, byteOffset, byteLength }: ArrayBufferView): Int32Array {
  return new Int32Array(buffer, byteOffset, byteLength / 4);
}

/** A column with one row per run of equal rows; `runs` (R): the run of each row. */
export interface RowRuns {
  readonly column: TransformColumn;
  readonly runs: Int32Array;
}

/**
 * A column of all rows or of the first row of each run. Either form is computed on first access.
 */
export class RepeatedColumn {
  #whole: TransformColumn | undefined;
  #heads: TransformColumn | undefined;
  readonly heads: Heads | undefined;

  private constructor(
    whole: TransformColumn | undefined,
    heads: Heads | undefined,
    atHeads: TransformColumn | undefined,
  ) {
    this.#whole = whole;
    this.heads = heads;
    this.#heads = atHeads;
  }

  /** A column with all its rows. */
  static whole(column: TransformColumn): RepeatedColumn {
    return new RepeatedColumn(column, undefined, undefined);
  }

  /** A column computed for the first row of each run. */
  static atHeads(column: TransformColumn, heads: Heads): RepeatedColumn {
    return new RepeatedColumn(undefined, heads, column);
  }

  get rows(): TransformColumn {
    if (this.#whole === undefined) {
      if (this.#heads === undefined || this.heads === undefined) throw new TypeError("a column");
      this.#whole = allRows(this.#heads, this.heads);
    }
    return this.#whole;
  }

  /** The column by runs; undefined if it was computed for all rows. */
  get runs(): RowRuns | undefined {
    if (this.heads === undefined || this.#heads === undefined) return undefined;
    return { column: this.#heads, runs: runsOf(this.heads) };
  }

  /** The column at the first row of each of these runs. */
  headsAt(heads: Heads): TransformColumn {
    if (this.heads === heads && this.#heads !== undefined) return this.#heads;
    return headRows(this.rows, heads);
  }
}

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

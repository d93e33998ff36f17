// Runs of equal rows: transforms compute the first row of each run, and the other rows share its
// result (RecD: Zhao et al., MLSys 2023, section 5, O4). Clustered sessions have long runs. Row r
// of an output is a function of row r of the inputs, so this saves time without changing results.
//
// R = rows, U = runs of equal rows, N = entries of all lists of a column.

import type { TransformColumn } from "../transforms/values.ts";
import { markSame, type RowWords, rowCopier } from "./same-rows.ts";

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

// Rows that repeat the row before them: transforms compute the first row of each run, and the
// others share what comes of it (RecD: Zhao et al., MLSys 2023, section 5, O4). Clustered sessions
// have long runs. Row r of an output is a function of row r of the inputs, so nothing changes but
// the time.
//
// R = rows, U = rows that differ from the row before, N = entries of all lists of a column.

import type { NumberColumn } from "../columnar/column.ts";
import type { TransformColumn } from "../transforms/values.ts";

/** Rows for each row that differs, at least: with fewer, copies cost more than they save. */
const runsMin = 1.5;

/** (U + 1): the first row of each run of equal rows, and the number of rows. */
export type Heads = Int32Array;

/** The runs of rows that are equal in all of these columns; undefined: too few rows repeat. */
export function headsOf(columns: readonly TransformColumn[], rows: number): Heads | undefined {
  const most = Math.floor(rows / runsMin);
  if (columns.length === 0) return undefined;
  const heads = new Int32Array(most + 1);
  const comparers = columns.map(comparerOf);
  let count = 0;
  for (let row = 0; row < rows; row++) {
    if (row > 0 && comparers.every((isSame) => isSame(row))) continue;
    if (count === most) return undefined;
    heads[count++] = row;
  }
  heads[count] = rows;
  return heads.subarray(0, count + 1);
}

/** Whether a row has the value of the row before it. */
function comparerOf(column: TransformColumn): (row: number) => boolean {
  if (column.form === "numbers") {
    const { values } = column;
    return (row) => Object.is(values[row], values[row - 1]);
  }
  const { offsets } = column;
  const entries = entriesOf(column);
  const present = "present" in column ? column.present : undefined;
  return (row) => {
    const [before, from, end] = [offsets[row - 1] ?? 0, offsets[row] ?? 0, offsets[row + 1] ?? 0];
    if (end - from !== from - before || present?.[row] !== present?.[row - 1]) return false;
    for (const words of entries) {
      const [first, last] = [words.perEntry * from, words.perEntry * end];
      const back = words.perEntry * (from - before);
      for (let i = first; i < last; i++) if (words.of[i] !== words.of[i - back]) return false;
    }
    return true;
  };
}

/** What the entries of lists consist of, in words of 32 bits. */
function entriesOf(column: Exclude<TransformColumn, NumberColumn>) {
  const wordsIn = (entries: ArrayBufferView, perEntry: number) => {
    return { of: wordsOf(entries), perEntry };
  };
  if (column.form === "lists") return [wordsIn(column.values, 2)];
  const own = column.form === "ids" ? wordsIn(column.ids, 2) : wordsIn(column.codes, 1);
  return column.weights === undefined ? [own] : [own, wordsIn(column.weights, 1)];
}

/** The first row of each run. (U) */
export function headRows(column: TransformColumn, heads: Heads): TransformColumn {
  return picked(column, heads.length - 1, (row) => heads[row] ?? 0);
}

/** All rows of what was computed of the first row of each run. (R) */
export function allRows(column: TransformColumn, heads: Heads): TransformColumn {
  const rows = heads.at(-1) ?? 0;
  const runs = new Int32Array(rows);
  for (let run = 0; run + 1 < heads.length; run++) runs.fill(run, heads[run], heads[run + 1]);
  return picked(column, rows, (row) => runs[row] ?? 0);
}

/** The rows that `rowAt` names, in new memory. */
function picked(
  column: TransformColumn,
  rows: number,
  rowAt: (row: number) => number,
): TransformColumn {
  if (column.form === "numbers") {
    const values = new Float64Array(rows);
    for (let row = 0; row < rows; row++) values[row] = column.values[rowAt(row)] ?? 0;
    return { ...column, values };
  }
  const from = column.offsets;
  const offsets = new Int32Array(rows + 1);
  for (let row = 0; row < rows; row++) {
    const at = rowAt(row);
    offsets[row + 1] = (offsets[row] ?? 0) + (from[at + 1] ?? 0) - (from[at] ?? 0);
  }
  const total = offsets[rows] ?? 0;
  /** Copies the entries of all rows. */
  const copied = <Entries extends ArrayBufferView>(entries: Entries, out: Entries): Entries => {
    const perEntry = total === 0 ? 1 : out.byteLength / 4 / total;
    const [source, words] = [wordsOf(entries), wordsOf(out)];
    for (let row = 0; row < rows; row++) {
      const first = perEntry * (from[rowAt(row)] ?? 0);
      const [begin, end] = [perEntry * (offsets[row] ?? 0), perEntry * (offsets[row + 1] ?? 0)];
      for (let to = begin; to < end; to++) words[to] = source[first + to - begin] ?? 0;
    }
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
      present: Uint8Array.from({ length: rows }, (_, row) => present[rowAt(row)] ?? 0),
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

/** A column, or what it is in the first row of each run; each is made when it is asked for. */
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

  /** A column that was computed for the first row of each run. */
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

  /** The first row of each of these runs. */
  headsAt(heads: Heads): TransformColumn {
    if (this.heads === heads && this.#heads !== undefined) return this.#heads;
    return headRows(this.rows, heads);
  }
}

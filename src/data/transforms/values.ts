// Columns between transforms: the columns of columnar/column.ts, and lists of numbers. A sample
// cannot hold a list of numbers, so a later transform must turn it into ids.

import type { Column, ColumnForm, IdColumn, NumberColumn, TextColumn } from "../columnar/column.ts";

/** A list of numbers per row. */
export interface ListColumn {
  readonly form: "lists";
  /** (R + 1) */
  readonly offsets: Int32Array;
  /** (N) */
  readonly values: Float64Array;
}

export type TransformColumn = Column | ListColumn;

/** The forms that a transform may take and make. */
export type TransformForm = ColumnForm | "lists";

/** The type of a column, known before any row is read. */
export interface ColumnType {
  readonly form: TransformForm;
  /** Whether its ids or texts have weights. */
  readonly isWeighted: boolean;
}

/** One number per row, without weights. */
export const numbersType: ColumnType = { form: "numbers", isWeighted: false };
/** A list of ids per row, without weights. */
export const idsType: ColumnType = { form: "ids", isWeighted: false };

/** (2 N): lower and upper halves of the ids, interleaved; a view of the same memory. */
export function halvesOf({ ids }: Pick<IdColumn, "ids">): Int32Array {
  return new Int32Array(ids.buffer, ids.byteOffset, 2 * ids.length);
}

/** Narrows a column to its form, which the plan has checked. */
export function asNumbers(column: TransformColumn | undefined): NumberColumn {
  if (column?.form !== "numbers") throw new TypeError("a column of numbers");
  return column;
}

/** As `asNumbers`. */
export function asIds(column: TransformColumn | undefined): IdColumn {
  if (column?.form !== "ids") throw new TypeError("a column of ids");
  return column;
}

/** As `asNumbers`. */
export function asTexts(column: TransformColumn | undefined): TextColumn {
  if (column?.form !== "texts") throw new TypeError("a column of texts");
  return column;
}

/** Offsets of columns with one entry per row. */
export function oneEach(rows: number): Int32Array {
  const offsets = new Int32Array(rows + 1);
  for (let row = 0; row <= rows; row++) offsets[row] = row; // Three times as fast as a callback.
  return offsets;
}

/** Builds a column of ids row by row, when the number of ids is not known beforehand. */
export class IdBuilder {
  readonly offsets: Int32Array;
  #halves = new Int32Array(256);
  #weights: Float32Array | undefined;
  #rows = 0;
  #count = 0;

  constructor(rows: number, isWeighted = false) {
    this.offsets = new Int32Array(rows + 1);
    this.#weights = isWeighted ? new Float32Array(128) : undefined;
  }

  /** Appends an id to the current row. */
  push(low: number, high: number, weight = 1): void {
    const at = 2 * this.#count;
    if (at === this.#halves.length) this.#grow();
    this.#halves[at] = low;
    this.#halves[at + 1] = high;
    if (this.#weights !== undefined) this.#weights[this.#count] = weight;
    this.#count++;
  }

  /** Ends the current row, and starts the next. */
  endRow(): void {
    this.offsets[++this.#rows] = this.#count;
  }

  column(): IdColumn {
    const ids = new BigInt64Array(this.#halves.buffer, 0, this.#count);
    const weights = this.#weights?.subarray(0, this.#count);
    return { form: "ids", offsets: this.offsets, ids, ...(weights && { weights }) };
  }

  #grow(): void {
    const halves = new Int32Array(2 * this.#halves.length);
    halves.set(this.#halves);
    this.#halves = halves;
    if (this.#weights === undefined) return;
    const weights = new Float32Array(this.#halves.length / 2);
    weights.set(this.#weights);
    this.#weights = weights;
  }
}

// Columns between transforms: those of columnar/column.ts, and lists of numbers, which exist only
// between a file and the transform that makes ids of them.

import type { Column, ColumnForm, IdColumn, NumberColumn, TextColumn } from "../columnar/column.ts";

/** A list of numbers a row. */
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

/** What is known of a column before there is a row. */
export interface ColumnType {
  readonly form: TransformForm;
  /** Whether its ids, or texts, have weights. */
  readonly isWeighted: boolean;
}

/** One number a row, without weights. */
export const numbersType: ColumnType = { form: "numbers", isWeighted: false };
/** A list of ids a row, without weights. */
export const idsType: ColumnType = { form: "ids", isWeighted: false };

/** (2 N): lower and upper halves of the ids, one after the other. The same memory. */
export function halvesOf({ ids }: Pick<IdColumn, "ids">): Int32Array {
  return new Int32Array(ids.buffer, ids.byteOffset, 2 * ids.length);
}

/** The column, which is of that form: the plan has checked it. */
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

/** Offsets of one entry a row. */
export function oneEach(rows: number): Int32Array {
  const offsets = new Int32Array(rows + 1);
  for (let row = 0; row <= rows; row++) offsets[row] = row; // Three times as fast as a callback.
  return offsets;
}

/** Ids that are collected row after row, where nobody knows beforehand how many they are. */
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

  /** Appends an id to the row that is open. */
  push(low: number, high: number, weight = 1): void {
    const at = 2 * this.#count;
    if (at === this.#halves.length) this.#grow();
    this.#halves[at] = low;
    this.#halves[at + 1] = high;
    if (this.#weights !== undefined) this.#weights[this.#count] = weight;
    this.#count++;
  }

  /** Ends the row that is open: the next one is. */
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

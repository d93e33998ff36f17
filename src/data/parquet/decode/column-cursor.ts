// Reads a column of a row group, some rows at a time. This file opens the cursor for a column's
// shape and reads columns without lists; list-cursors.ts reads lists.

import type { Column } from "../../columnar/column.ts";
import { formOf, type WantedColumn } from "../../tables/asked-columns.ts";
import { CorruptFile } from "../../tables/damage.ts";
import type { ByteHash } from "../../tables/table-file.ts";
import type { ColumnShape } from "../shapes.ts";
import { type ColumnCursor, columnOf, LeafCursor, type LeafSource } from "./leaf-cursor.ts";
import { ListCursor, ListReader, WeightedCursor } from "./list-cursors.ts";
import { TextPool } from "./texts.ts";
import type { CodedTarget, Target } from "./values.ts";

/**
 * Opens the cursor of a column. `weights`: source of the second leaf of a weighted list.
 * @throws CorruptFile
 */
export function openCursor(
  column: WantedColumn<ColumnShape>,
  source: LeafSource,
  weights: LeafSource | undefined,
  hash: ByteHash,
): ColumnCursor {
  const { shape } = column;
  const target = targetOf(formOf(column));
  if (shape.list === "none") {
    const own = target.form === "ids" ? { ...target, coded: newCoded() } : target;
    return new FlatCursor(new LeafCursor(shape.leaf, 0, source, own, hash));
  }
  const ids = new ListReader(new LeafCursor(shape.leaf, 1, source, target, hash), shape.entryLevel);
  if (shape.weights === undefined || weights === undefined) return new ListCursor(ids, shape.leaf);
  const numbers = targetOf("numbers");
  const leaf = new LeafCursor(shape.weights, 1, weights, numbers, hash);
  return new WeightedCursor(ids, new ListReader(leaf, shape.entryLevel), shape.leaf);
}

function targetOf(form: Column["form"]): Target {
  switch (form) {
    case "numbers":
      return { form, values: new Float64Array(0) };
    case "ids":
      return { form, pairs: new Int32Array(0) };
    case "texts":
      return { form, codes: new Int32Array(0), pool: new TextPool() };
    default:
      return form satisfies never;
  }
}

function newCoded(): CodedTarget {
  return { codes: new Int32Array(0), dictionary: new BigInt64Array(0), isWhole: true };
}

let singles = new Int32Array(0);

/** 0, 1, 2, … rows: the offsets if every row has one value. All columns share the array. */
function offsetsOfSingles(rows: number): Int32Array {
  if (singles.length <= rows) {
    singles = new Int32Array(2 * rows + 1);
    for (let row = 0; row < singles.length; row++) singles[row] = row;
  }
  return singles.subarray(0, rows + 1);
}

/** A column without lists. */
class FlatCursor implements ColumnCursor {
  readonly #leaf: LeafCursor;
  #offsets = new Int32Array(0);

  constructor(leaf: LeafCursor) {
    this.#leaf = leaf;
  }

  async read(rows: number): Promise<Column> {
    const leaf = this.#leaf;
    const { target } = leaf;
    if (target.form === "texts") target.pool.begin();
    if (target.form === "ids" && target.coded !== undefined) target.coded.isWhole = true;
    leaf.reserve(rows);
    const isNumbers = target.form === "numbers";
    let count = 0;
    for (let row = 0; row < rows; ) {
      if (!(await leaf.fill())) throw new CorruptFile(`it ends after ${row} of ${rows} rows`);
      const some = Math.min(leaf.end - leaf.at, rows - row);
      const present = this.#present(row, some, count, rows);
      leaf.values(isNumbers ? row : count, present);
      if (isNumbers && present < some) this.#spread(target.values, row, some, present);
      count += present;
      row += some;
      leaf.at += some;
    }
    const offsets = count === rows ? offsetsOfSingles(rows) : this.#offsets.subarray(0, rows + 1);
    if (count < rows) offsets[rows] = count;
    return columnOf(leaf.leaf, target, offsets, count, rows);
  }

  /**
   * Counts the present values of `some` rows. From the first missing value of the batch on, it also
   * writes the rows' offsets. `rows`: rows of the batch.
   */
  #present(row: number, some: number, count: number, rows: number): number {
    const { definition, at, leaf, run, memory } = this.#leaf;
    const max = leaf.definitionMax;
    if (run === max && count === row) return some;
    if (this.#offsets.length <= rows) this.#offsets = memory.int32(rows + 1);
    const offsets = this.#offsets;
    if (count === row) offsets.set(offsetsOfSingles(row));
    let present = count;
    for (let i = 0; i < some; i++) {
      offsets[row + i] = present;
      if ((run ?? definition[at + i]) === max) present++;
    }
    return present - count;
  }

  /** Moves `present` numbers to the rows that have a value, and sets the other rows to NaN. */
  #spread(values: Float64Array, row: number, some: number, present: number): void {
    const { definition, at, leaf, run } = this.#leaf;
    let from = row + present;
    for (let i = some - 1; i >= 0; i--) {
      const isPresent = (run ?? definition[at + i]) === leaf.definitionMax;
      values[row + i] = isPresent ? (values[--from] ?? 0) : Number.NaN;
    }
  }
}

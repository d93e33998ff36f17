// Reads a column of a row group, some rows at a time: the cursor of its shape. Here are columns
// without lists; list-cursors.ts has the others.

import type { Hash } from "node:crypto";
import type { Column } from "../../columnar/column.ts";
import { formOf } from "../../tables/asked-columns.ts";
import { Damage } from "../../tables/damage.ts";
import type { ColumnShape } from "../shapes.ts";
import {
  type ColumnCursor,
  columnOf,
  LeafCursor,
  type LeafSource,
  reserve,
} from "./leaf-cursor.ts";
import { ListCursor, ListReader, WeightedCursor } from "./list-cursors.ts";
import { TextPool } from "./texts.ts";
import type { Target } from "./values.ts";

/** The cursor of a column. `weights`: the second leaf of a weighted list. @throws Damage */
export function openCursor(
  shape: ColumnShape,
  isId: boolean,
  source: LeafSource,
  weights: LeafSource | undefined,
  hash: Hash,
): ColumnCursor {
  const target = targetOf(formOf(shape, isId));
  if (shape.list === "none")
    return new FlatCursor(new LeafCursor(shape.leaf, 0, source, target, hash));
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
    reserve(target, rows);
    if (this.#offsets.length <= rows) this.#offsets = new Int32Array(rows + 1);
    const offsets = this.#offsets;
    const isNumbers = target.form === "numbers";
    let count = 0;
    for (let row = 0; row < rows; ) {
      if (!(await leaf.fill())) throw new Damage(`it ends after ${row} of ${rows} rows`);
      const some = Math.min(leaf.end - leaf.at, rows - row);
      const there = this.#present(row, some, count);
      leaf.values(isNumbers ? row : count, there);
      if (isNumbers && there < some) this.#spread(target.values, row, some, there);
      count += there;
      row += some;
      leaf.at += some;
    }
    offsets[rows] = count;
    return columnOf(leaf.leaf, target, offsets.subarray(0, rows + 1), count, rows);
  }

  /** Writes the offsets of some rows, and counts those that have a value. */
  #present(row: number, some: number, count: number): number {
    const { definition, at, leaf } = this.#leaf;
    const max = leaf.definitionMax;
    const offsets = this.#offsets;
    let there = count;
    if (max === 0) {
      for (let i = 0; i < some; i++) offsets[row + i] = there++;
      return some;
    }
    for (let i = 0; i < some; i++) {
      offsets[row + i] = there;
      if (definition[at + i] === max) there++;
    }
    return there - count;
  }

  /** Moves `there` numbers to the rows that have one; the others have none. */
  #spread(values: Float64Array, row: number, some: number, there: number): void {
    const { definition, at, leaf } = this.#leaf;
    let from = row + there;
    for (let i = some - 1; i >= 0; i--) {
      const isThere = definition[at + i] === leaf.definitionMax;
      values[row + i] = isThere ? (values[--from] ?? 0) : Number.NaN;
    }
  }
}

// Cursors of columns of lists: levels become offsets, and missing entries are left out. For
// weighted lists, the leaves of ids and weights are read in parallel.

import type { Column } from "../../columnar/column.ts";
import { CorruptFile } from "../../tables/damage.ts";
import type { Leaf } from "../shapes.ts";
import { type ColumnCursor, columnOf, grown, type LeafCursor, levelsMax } from "./leaf-cursor.ts";

/** Most entries of a column in one batch. */
const entriesMax = 1 << 24;

export class ListReader {
  readonly leaf: LeafCursor;
  readonly #entryLevel: number;
  offsets = new Int32Array(0);
  present = new Uint8Array(0);
  /** For each entry, whether it has a value. */
  entries = new Uint8Array(0);
  entryCount = 0;
  valueCount = 0;
  hasAbsent = false;

  constructor(leaf: LeafCursor, entryLevel: number) {
    this.leaf = leaf;
    this.#entryLevel = entryLevel;
  }

  /** Reads the next `rows` rows. With `isByEntry`, offsets also count entries without a value. */
  async read(rows: number, isByEntry: boolean): Promise<void> {
    const { leaf } = this;
    if (leaf.target.form === "texts") leaf.target.pool.begin();
    if (this.offsets.length <= rows) {
      this.offsets = leaf.memory.int32(rows + 1);
      this.present = leaf.memory.uint8(rows);
    }
    this.present.fill(1);
    [this.entryCount, this.valueCount, this.hasAbsent] = [0, 0, false];
    let row = 0;
    for (;;) {
      if (!(await leaf.fill())) break;
      const before = this.valueCount;
      row = this.#scan(row, rows, isByEntry);
      leaf.values(before, this.valueCount - before);
      if (leaf.at < leaf.end) break;
    }
    if (row < rows) throw new CorruptFile(`it ends after ${row} of ${rows} rows`);
    this.offsets[rows] = isByEntry ? this.entryCount : this.valueCount;
  }

  /**
   * Consumes the levels of the block up to the start of the row after the last requested one.
   * Returns the number of rows so far.
   */
  #scan(first: number, rows: number, isByEntry: boolean): number {
    const { leaf, offsets } = this;
    const { repetition, definition, end } = leaf;
    const [entryLevel, max] = [this.#entryLevel, leaf.leaf.definitionMax];
    if (this.entryCount + levelsMax > entriesMax) {
      throw new CorruptFile(`it has more than ${entriesMax} entries in ${rows} rows`);
    }
    if (isByEntry && this.entries.length < this.entryCount + levelsMax) {
      this.entries = grown(this.entries, leaf.memory.uint8(2 * (this.entryCount + levelsMax)));
    }
    // Fast path: every entry of the block has a value, so only the starts of rows are needed.
    if (!isByEntry && leaf.run === max && (first > 0 || repetition[leaf.at] === 0)) {
      const start = leaf.at;
      const { row, at } = leaf.decoders.markRows(offsets, first, rows, this.valueCount, leaf);
      leaf.at = at;
      this.entryCount += at - start;
      this.valueCount += at - start;
      return row;
    }
    const { entries } = this;
    let [row, entry, value, at] = [first, this.entryCount, this.valueCount, leaf.at];
    for (; at < end; at++) {
      const level = definition[at] ?? 0;
      if (repetition[at] === 0) {
        if (row === rows) break;
        offsets[row] = isByEntry ? entry : value;
        if (level < entryLevel - 1) {
          this.present[row] = 0;
          this.hasAbsent = true;
        }
        row++;
      } else if (row === 0) throw new CorruptFile("it begins within a row");
      if (level < entryLevel) continue;
      if (isByEntry) entries[entry] = level === max ? 1 : 0;
      entry++;
      if (level === max) value++;
    }
    leaf.at = at;
    [this.entryCount, this.valueCount] = [entry, value];
    return row;
  }

  /** The `present` array of a column; left out if every row has a list. */
  presence(rows: number): { readonly present?: Uint8Array } {
    return this.hasAbsent ? { present: this.present.subarray(0, rows) } : {};
  }
}

/** Cursor of a column of lists of ids or texts. */
export class ListCursor implements ColumnCursor {
  readonly #list: ListReader;
  readonly #leaf: Leaf;

  constructor(list: ListReader, leaf: Leaf) {
    this.#list = list;
    this.#leaf = leaf;
  }

  async read(rows: number): Promise<Column> {
    const list = this.#list;
    await list.read(rows, false);
    const offsets = list.offsets.subarray(0, rows + 1);
    const column = columnOf(this.#leaf, list.leaf.target, offsets, list.valueCount, rows);
    return { ...column, ...list.presence(rows) };
  }
}

/** Cursor of a column of weighted lists: two leaves with the same list structure. */
export class WeightedCursor implements ColumnCursor {
  readonly #ids: ListReader;
  readonly #numbers: ListReader;
  readonly #leaf: Leaf;
  #weights = new Float32Array(0);

  constructor(ids: ListReader, numbers: ListReader, leaf: Leaf) {
    this.#ids = ids;
    this.#numbers = numbers;
    this.#leaf = leaf;
  }

  async read(rows: number): Promise<Column> {
    const [ids, numbers] = [this.#ids, this.#numbers];
    await ids.read(rows, true);
    await numbers.read(rows, true);
    const offsets = ids.offsets.subarray(0, rows + 1);
    for (let row = 0; row <= rows; row++) {
      if (offsets[row] !== numbers.offsets[row])
        throw new CorruptFile("its ids and weights differ");
    }
    if (this.#weights.length < ids.valueCount) this.#weights = new Float32Array(2 * ids.valueCount);
    this.#keep(offsets, rows);
    const weights = this.#weights.subarray(0, ids.valueCount);
    const column = columnOf(this.#leaf, ids.leaf.target, offsets, ids.valueCount, rows);
    return { ...column, weights, ...ids.presence(rows) } as Column;
  }

  /**
   * Drops the weights of entries without an id, and turns offsets of entries into offsets of ids. A
   * missing weight becomes NaN.
   */
  #keep(offsets: Int32Array, rows: number): void {
    const [ids, numbers] = [this.#ids, this.#numbers];
    const { target } = numbers.leaf;
    const values = target.form === "numbers" ? target.values : new Float64Array(0);
    let [kept, value, entry] = [0, 0, 0];
    for (let row = 0; row < rows; row++) {
      const end = offsets[row + 1] ?? 0;
      offsets[row] = kept;
      for (; entry < end; entry++) {
        const weight = numbers.entries[entry] === 1 ? (values[value++] ?? 0) : Number.NaN;
        if (ids.entries[entry] === 1) this.#weights[kept++] = weight;
      }
    }
    offsets[rows] = kept;
  }
}

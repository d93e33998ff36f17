// One leaf of a column in a row group: its levels, block after block, and the values of its pages,
// which go straight into the arrays of a column. Memory is that of a batch and of two pages.

import type { Hash } from "node:crypto";
import type { Column } from "../../columnar/column.ts";
import type { ByteStream } from "../../tables/byte-ranges.ts";
import { Damage } from "../../tables/damage.ts";
import type { Chunk } from "../footer.ts";
import type { Leaf } from "../shapes.ts";
import { type DataPage, PageReader } from "./pages.ts";
import {
  type Dictionary,
  readDictionary,
  type Target,
  type ValueReader,
  valueReader,
} from "./values.ts";

/** Levels that are decoded at a time. */
export const levelsMax = 4096;

/** Reads the rows of one column in a row group. */
export interface ColumnCursor {
  /** The next `rows` rows; the column is valid until the next call. @throws Damage */
  read(rows: number): Promise<Column>;
}

/** A leaf's bytes in a row group. */
export interface LeafSource {
  readonly stream: ByteStream;
  readonly chunk: Chunk;
}

/** Makes room for `count` values in a target, and keeps those that are in it. */
export function reserve(target: Target, count: number): void {
  switch (target.form) {
    case "numbers":
      if (target.values.length < count)
        target.values = grown(target.values, new Float64Array(2 * count));
      return;
    case "ids":
      if (target.pairs.length < 2 * count)
        target.pairs = grown(target.pairs, new Int32Array(4 * count));
      return;
    case "texts":
      if (target.codes.length < count)
        target.codes = grown(target.codes, new Int32Array(2 * count));
      return;
    default:
      target satisfies never;
  }
}

export function grown<Elements extends Int32Array | Float64Array | Uint8Array>(
  from: Elements,
  larger: Elements,
): Elements {
  larger.set(from);
  return larger;
}

/** The levels of a leaf, block after block, and the values of its pages. */
export class LeafCursor {
  readonly leaf: Leaf;
  readonly target: Target;
  readonly #pages: PageReader;
  #page: DataPage | undefined;
  #pageLeft = 0;
  #dictionary: Dictionary | undefined;
  #read: ValueReader = () => {};
  /** The levels of the block. */
  readonly repetition = new Int32Array(levelsMax);
  readonly definition = new Int32Array(levelsMax);
  /** The levels of the block that are left: `at` until `end`. */
  at = 0;
  end = 0;

  constructor(
    leaf: Leaf,
    repetitionMax: number,
    { stream, chunk }: LeafSource,
    target: Target,
    hash: Hash,
  ) {
    if (chunk.physical !== leaf.element.type) {
      throw new Damage(`it is of ${chunk.physical}, and the schema says ${leaf.element.type}`);
    }
    const levels = { repetitionMax, definitionMax: leaf.definitionMax };
    this.#pages = new PageReader(stream, chunk, levels, hash);
    this.leaf = leaf;
    this.target = target;
  }

  /** Makes sure that a level is left, in this block or the next. False: the column ends. */
  async fill(): Promise<boolean> {
    if (this.at < this.end) return true;
    if (this.#pageLeft === 0 && !(await this.#nextPage())) return false;
    const count = Math.min(this.#pageLeft, levelsMax);
    const { repetition, definition } = this.#page as DataPage;
    if (repetition !== undefined) {
      repetition.read(this.repetition, 0, count);
      checkLevels(this.repetition, count, 1);
    }
    if (definition !== undefined) {
      definition.read(this.definition, 0, count);
      checkLevels(this.definition, count, this.leaf.definitionMax);
    }
    this.#pageLeft -= count;
    [this.at, this.end] = [0, count];
    return true;
  }

  async #nextPage(): Promise<boolean> {
    this.#page = await this.#pages.next();
    if (this.#page === undefined) return false;
    const { dictionary } = this.#pages;
    if (dictionary !== undefined) {
      this.#dictionary ??= readDictionary(dictionary, this.leaf, this.target);
    }
    this.#read = valueReader(this.#page, this.leaf, this.target, this.#dictionary);
    this.#pageLeft = this.#page.count;
    return true;
  }

  /** Reads the next values of the page into the target, from place `at` on. */
  values(at: number, count: number): void {
    reserve(this.target, at + count);
    this.#read(at, count);
  }
}

/** Levels of a wrong size would name entries that are none. */
function checkLevels(levels: Int32Array, count: number, max: number): void {
  let all = 0;
  for (let i = 0; i < count; i++) all = Math.max(all, (levels[i] ?? 0) >>> 0);
  if (all > max) throw new Damage(`a level is ${all}, and the schema has ${max}`);
}

/** The column of what a target has got. */
export function columnOf(
  { kind, isUnsigned, element }: Leaf,
  target: Target,
  offsets: Int32Array,
  count: number,
  rows: number,
): Column {
  switch (target.form) {
    case "numbers": {
      const values = target.values.subarray(0, rows);
      return kind === "moment"
        ? { form: "numbers", values, isTime: true }
        : { form: "numbers", values };
    }
    case "ids": {
      const ids = new BigInt64Array(target.pairs.buffer, 0, count);
      const isWide = isUnsigned && element.type === "INT64";
      return { form: "ids", offsets, ids, ...(isWide ? { isUnsigned: true } : {}) };
    }
    case "texts": {
      const { codes, pool } = target;
      return {
        form: "texts",
        offsets,
        codes: codes.subarray(0, count),
        dictionary: pool.dictionary,
      };
    }
    default:
      return target satisfies never;
  }
}

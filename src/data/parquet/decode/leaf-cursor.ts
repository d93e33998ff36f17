// Reads one leaf of a column in a row group: its levels in blocks, and the values of its pages
// directly into the arrays of a column. Memory: one batch and two pages.

import type { Column, IdColumn } from "../../columnar/column.ts";
import type { ByteStream } from "../../tables/byte-ranges.ts";
import { CorruptFile } from "../../tables/damage.ts";
import type { PieceMemory } from "../../tables/piece-memory.ts";
import type { ByteHash } from "../../tables/table-file.ts";
import type { Chunk } from "../footer.ts";
import type { Leaf } from "../shapes.ts";
import type { PageDecoders } from "./page-decoders.ts";
import { type DataPage, PageReader } from "./pages.ts";
import {
  type CodedTarget,
  type Dictionary,
  idsOfCodes,
  readDictionary,
  type Target,
  type ValueReader,
  valueReader,
} from "./values.ts";

/** Levels that are decoded at a time. */
export const levelsMax = 4096;
const noLevels = new Int32Array(0);

/** Reads the rows of one column in a row group. */
export interface ColumnCursor {
  /** Reads the next `rows` rows; the column is valid until the next call. @throws CorruptFile */
  read(rows: number): Promise<Column>;
}

/** The bytes of a leaf in a row group, and the tools to decode them. */
export interface LeafSource {
  readonly stream: ByteStream;
  readonly chunk: Chunk;
  readonly decoders: PageDecoders;
  readonly memory: PieceMemory;
}

/** Implements `LeafCursor.reserve`. A target that grows at least doubles. */
function reserve(target: Target, count: number, memory: PieceMemory): void {
  const sizeOf = ({ length }: ArrayLike<number>) => Math.max(count, 2 * length);
  switch (target.form) {
    case "numbers": {
      const { values } = target;
      if (values.length < count) target.values = grown(values, memory.float64(sizeOf(values)));
      return;
    }
    case "ids": {
      const { coded, pairs } = target;
      if (coded?.isWhole === true) {
        const { codes } = coded;
        if (codes.length < count) coded.codes = grown(codes, memory.int32(sizeOf(codes)));
      } else if (pairs.length < 2 * count) {
        target.pairs = grown(pairs, memory.int32(Math.max(2 * count, 2 * pairs.length)));
      }
      return;
    }
    case "texts": {
      const { codes } = target;
      if (codes.length < count) target.codes = grown(codes, memory.int32(sizeOf(codes)));
      return;
    }
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

/** Reads the levels of a leaf in blocks, and the values of its pages. */
export class LeafCursor {
  readonly leaf: Leaf;
  readonly target: Target;
  readonly memory: PieceMemory;
  readonly decoders: PageDecoders;
  readonly #pages: PageReader;
  #page: DataPage | undefined;
  #pageLeft = 0;
  #dictionary: Dictionary | undefined;
  #read: ValueReader = () => {};
  /** The levels of the block. */
  repetition = noLevels;
  definition = noLevels;
  /**
   * The definition level of the block if all its entries share one. `definition` is then filled for
   * lists only.
   */
  run: number | undefined;
  /** The unread levels of the block: `at` until `end`. */
  at = 0;
  end = 0;

  constructor(
    leaf: Leaf,
    repetitionMax: number,
    { stream, chunk, decoders, memory }: LeafSource,
    target: Target,
    hash: ByteHash,
  ) {
    if (chunk.physical !== leaf.element.type) {
      throw new CorruptFile(`it is of ${chunk.physical}, and the schema says ${leaf.element.type}`);
    }
    const levels = { repetitionMax, definitionMax: leaf.definitionMax };
    this.#pages = new PageReader(stream, chunk, levels, { hash, decoders, memory });
    this.memory = memory;
    this.decoders = decoders;
    this.leaf = leaf;
    this.target = target;
  }

  /**
   * Loads the next block of levels if none is left in this block. Resolves with false at the end of
   * the column.
   */
  async fill(): Promise<boolean> {
    if (this.at < this.end) return true;
    if (this.#pageLeft === 0 && !(await this.#nextPage())) return false;
    const count = Math.min(this.#pageLeft, levelsMax);
    const { repetition, definition } = this.#page as DataPage;
    if (repetition !== undefined) {
      if (this.repetition === noLevels) this.repetition = this.memory.int32(levelsMax);
      checkLevel(repetition.read(this.repetition, 0, count), 1);
    }
    this.run = definition === undefined ? 0 : definition.readRun(count);
    if (this.run !== undefined) checkLevel(this.run, this.leaf.definitionMax);
    const isWritten = repetition !== undefined || this.run === undefined;
    if (isWritten && this.definition === noLevels) this.definition = this.memory.int32(levelsMax);
    if (definition !== undefined && this.run === undefined) {
      checkLevel(definition.read(this.definition, 0, count), this.leaf.definitionMax);
    } else if (isWritten) this.definition.fill(this.run ?? 0, 0, count);
    this.#pageLeft -= count;
    [this.at, this.end] = [0, count];
    return true;
  }

  async #nextPage(): Promise<boolean> {
    this.#page = await this.#pages.next();
    if (this.#page === undefined) return false;
    const { dictionary } = this.#pages;
    if (dictionary !== undefined) {
      this.#dictionary ??= readDictionary(dictionary, this.leaf, this.target, this.memory);
    }
    this.#read = valueReader(this.#page, this.leaf, this.target, this.#dictionary);
    this.#pageLeft = this.#page.count;
    return true;
  }

  /** Makes room for `count` values in the target, preserving its values. */
  reserve(count: number): void {
    reserve(this.target, count, this.memory);
  }

  /** Reads the next `count` values of the page into the target, from index `at` on. */
  values(at: number, count: number): void {
    this.reserve(at + count);
    this.#read(at, count);
  }
}

/** A level beyond the schema's maximum would refer to entries that do not exist. */
function checkLevel(level: number, max: number): void {
  if (level >>> 0 > max)
    throw new CorruptFile(`a level is ${level >>> 0}, and the schema has ${max}`);
}

/** Builds a column from the values in a target. */
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
      const isWide = isUnsigned && element.type === "INT64";
      const own = isWide
        ? ({ form: "ids", isUnsigned: true } as const)
        : ({ form: "ids" } as const);
      return target.coded?.isWhole === true
        ? codedColumn({ ...own, offsets }, target.coded, count)
        : { ...own, offsets, ids: new BigInt64Array(target.pairs.buffer, 0, count) };
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

/** A dictionary-encoded column whose `ids` are materialised on first access. */
function codedColumn(
  column: Omit<IdColumn, "ids">,
  { codes, dictionary }: CodedTarget,
  count: number,
): IdColumn {
  const coded = { codes: codes.subarray(0, count), dictionary };
  let ids: BigInt64Array | undefined;
  return {
    ...column,
    coded,
    get ids() {
      if (ids !== undefined) return ids;
      ids = new BigInt64Array(count);
      idsOfCodes(ids, coded, count);
      return ids;
    },
  };
}

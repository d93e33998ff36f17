// Reads the values of one leaf in a row group by their physical types: numbers, 64-bit integers,
// booleans and bytes. The caller interprets the logical type.

import type { SchemaTree } from "hyparquet";
import { openStreams, type RangeReader } from "../tables/byte-ranges.ts";
import { CorruptFile, unusableAt } from "../tables/damage.ts";
import { MemoryBudget } from "../tables/memory-budget.ts";
import { PieceMemory } from "../tables/piece-memory.ts";
import { newHash, newReport } from "../tables/table-file.ts";
import { LeafCursor } from "./decode/leaf-cursor.ts";
import { pageDecoders } from "./decode/page-decoders.ts";
import { TextPool } from "./decode/texts.ts";
import type { Target } from "./decode/values.ts";
import { type Group, leafKey } from "./footer.ts";
import type { Leaf } from "./shapes.ts";

/** Entries of a leaf: one per row, or any number per row if the leaf is in lists. */
export interface StoredLeaf {
  /** Definition level of each entry. */
  readonly levels: readonly number[];
  /** Value of each entry; null if it is missing. */
  readonly values: readonly unknown[];
  /** For a leaf in lists: first entry of each row, then the end of the last row. */
  readonly starts: readonly number[];
}

/** Position of a leaf in the schema. */
export interface LeafPlace {
  readonly node: SchemaTree;
  readonly isRepeated: boolean;
  /** Definition level of a present value. */
  readonly level: number;
}

/** Least memory per value in the arrays of `StoredLeaf`, in bytes. */
const valueBytes = 16;

/**
 * Reads leaves of a file. The size of the file bounds the memory for a row group, so that a damaged
 * footer cannot exhaust it.
 */
export class StoredLeaves {
  readonly #file: RangeReader;
  readonly #memory: PieceMemory;
  readonly #values: MemoryBudget;
  #place = -1;

  constructor(file: RangeReader) {
    this.#file = file;
    this.#memory = new PieceMemory(new MemoryBudget(file.size));
    this.#values = new MemoryBudget(file.size);
  }

  /** Reads the entries of a leaf in row group `place`. @throws InputUnusableError */
  async read(group: Group, place: number, leaf: LeafPlace): Promise<StoredLeaf> {
    try {
      if (place !== this.#place) this.#values.begin();
      this.#place = place;
      return await this.#read(group, leaf);
    } catch (cause) {
      const at = { piece: place, column: leaf.node.path.join(".") };
      throw unusableAt({ kind: "parquet", path: this.#file.path, ...at }, cause);
    }
  }

  async #read({ rows, chunks }: Group, { node, isRepeated, level }: LeafPlace) {
    const chunk = chunks.get(leafKey(node.path));
    if (chunk === undefined) throw new CorruptFile("the row group lacks it");
    this.#values.take(valueBytes * chunk.values);
    const memory = this.#memory;
    memory.begin();
    const report = newReport(false);
    const [stream] = openStreams(this.#file, [chunk], report, memory);
    if (stream === undefined) throw new TypeError("a chunk has a stream");
    const source = { stream, chunk, decoders: pageDecoders(), memory };
    const own = leafOf(node, level);
    const cursor = new LeafCursor(own, isRepeated ? 1 : 0, source, targetOf(own), newHash(report));
    const taken = new Taken(cursor);
    while (await cursor.fill()) taken.block();
    const { levels, values, starts } = taken;
    const found = isRepeated ? starts.length : levels.length;
    if (found !== rows) throw new CorruptFile(`it has ${found} of ${rows} rows`);
    starts.push(levels.length);
    return { levels, values, starts };
  }
}

/** A leaf that is read by its physical type alone. */
function leafOf({ element, path }: SchemaTree, definitionMax: number): Leaf {
  const kind = kinds[element.type ?? ""] ?? "text";
  return {
    ...{ path: leafKey(path), element, kind, definitionMax },
    ...{ isUnsigned: false, divisor: 1, isDecimal: false, compared: { type: { kind: "text" } } },
  };
}

const kinds: Readonly<Record<string, Leaf["kind"]>> = {
  ...{ BOOLEAN: "boolean", INT32: "integer", INT64: "integer" },
  ...{ FLOAT: "fraction", DOUBLE: "fraction" },
};

function targetOf({ kind }: Leaf): Target {
  if (kind === "integer") return { form: "ids", pairs: new Int32Array(0) };
  if (kind === "text") return { form: "texts", codes: new Int32Array(0), pool: new TextPool() };
  return { form: "numbers", values: new Float64Array(0) };
}

/** Collects the entries of a leaf, block by block. */
class Taken {
  readonly levels: number[] = [];
  readonly values: unknown[] = [];
  readonly starts: number[] = [];
  readonly #leaf: LeafCursor;
  /** Bytes of texts by code, so that the occurrences of a dictionary's text share them. */
  readonly #bytes: { readonly text: string; readonly bytes: Uint8Array }[] = [];

  constructor(leaf: LeafCursor) {
    this.#leaf = leaf;
  }

  block(): void {
    const leaf = this.#leaf;
    const { definition, repetition, run, at, end } = leaf;
    const max = leaf.leaf.definitionMax;
    const isInLists = repetition.length > 0;
    const first = this.levels.length;
    let present = 0;
    for (let i = at; i < end; i++) {
      const level = run ?? definition[i] ?? 0;
      if (level === max) present++;
      if (isInLists && repetition[i] === 0) this.starts.push(this.levels.length);
      this.levels.push(level);
    }
    if (isInLists && this.starts.length === 0) throw new CorruptFile("it begins within a row");
    const { target } = leaf;
    if (target.form === "texts") target.pool.begin();
    leaf.values(0, present);
    leaf.at = end;
    const valueAt = this.#valueAt();
    let next = 0;
    for (let i = first; i < this.levels.length; i++) {
      this.values.push(this.levels[i] === max ? valueAt(next++) : null);
    }
  }

  /** Returns the values of the block, by index among the present values. */
  #valueAt(): (place: number) => unknown {
    const { target, leaf } = this.#leaf;
    switch (target.form) {
      case "numbers": {
        const { values } = target;
        return leaf.kind === "boolean" ? (i) => values[i] === 1 : (i) => values[i];
      }
      case "ids": {
        const { pairs } = target;
        if (leaf.element.type === "INT32") return (i) => pairs[2 * i];
        const wide = new BigInt64Array(pairs.buffer);
        return (i) => wide[i];
      }
      case "texts": {
        const { codes, pool } = target;
        return (i) => this.#bytesOf(codes[i] ?? 0, pool.dictionary);
      }
      default:
        return target satisfies never;
    }
  }

  #bytesOf(code: number, texts: readonly string[]): Uint8Array {
    const text = texts[code] ?? "";
    const known = this.#bytes[code];
    if (known?.text === text) return known.bytes;
    const bytes = new Uint8Array(Buffer.from(text, "latin1"));
    this.#bytes[code] = { text, bytes };
    return bytes;
  }
}

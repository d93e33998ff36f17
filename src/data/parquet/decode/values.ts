// Reads the values of a column's pages in any encoding, in the form in which the column is
// requested. A dictionary is decoded once, and its values are gathered by index.

import { CorruptFile } from "../../tables/damage.ts";
import { checkUnpacked, TextBudget } from "../../tables/memory-budget.ts";
import type { PieceMemory } from "../../tables/piece-memory.ts";
import type { Leaf } from "../shapes.ts";
import { DeltaReader } from "./delta.ts";
import { HybridReader } from "./hybrid.ts";
import {
  deltaPairs,
  fixedNumberOf,
  fixedNumbers,
  type NumberReader,
  numbersOfPairs,
  type PageBytes,
  type PairReader,
  plainBits,
  plainFractions,
  plainPairs,
  splitFractions,
  splitPairs,
  widthOf,
} from "./numbers.ts";
import type { PageDecoders } from "./page-decoders.ts";
import { type DataPage, type DictionaryPage, encodingName } from "./pages.ts";
import { PlainTexts, type TextPool } from "./texts.ts";

/** Destination of values: arrays in one of the forms of columns. */
export type Target =
  | { readonly form: "numbers"; values: Float64Array }
  | IdTarget
  | { readonly form: "texts"; codes: Int32Array; readonly pool: TextPool };

/** Destination of ids. */
export interface IdTarget {
  readonly form: "ids";
  /** Two halves per id, low half first. */
  pairs: Int32Array;
  /** Set if ids may stay dictionary codes. */
  readonly coded?: CodedTarget | undefined;
}

/** Dictionary codes instead of ids, until a page of the batch has no dictionary encoding. */
export interface CodedTarget {
  codes: Int32Array;
  dictionary: BigInt64Array;
  /** Whether all ids of the batch so far are in `codes`; otherwise they are in `pairs`. */
  isWhole: boolean;
}

/** Writes the next `count` values of a page to the target, from index `at` on. */
export type ValueReader = (at: number, count: number) => void;

const encodings = {
  plain: 0,
  plainDictionary: 2,
  rle: 3,
  delta: 5,
  deltaLength: 6,
  deltaText: 7,
  dictionary: 8,
  split: 9,
} as const;

/** Number of values of a dictionary, and the values in the target's form. */
export type Dictionary = { readonly count: number; readonly values: Float64Array | Int32Array };

/** Dictionary indices read per step. */
const placesMax = 4096;
/** Scratch memory for these indices; its content is not used across calls. */
const places = new Int32Array(placesMax);

/** Decodes a dictionary page; texts go to the target's pool. @throws CorruptFile */
export function readDictionary(
  page: DictionaryPage,
  leaf: Leaf,
  target: Target,
  memory: PieceMemory,
): Dictionary {
  const { count, bytes, end, decoders } = page;
  const whole = { bytes, start: 0, end, decoders };
  if (count > dictionaryMax(leaf, end)) {
    throw new CorruptFile(`its dictionary of ${end} bytes says that it has ${count} values`);
  }
  if (target.form === "texts") {
    const read = textReader({ ...whole, encoding: encodings.plain, count }, leaf);
    const budget = new TextBudget();
    const texts = Array.from({ length: count }, () => {
      const text = read();
      budget.take(text.length);
      return text;
    });
    target.pool.setKnown(texts);
    return { count, values: new Int32Array(0) };
  }
  if (target.form === "ids") {
    const values = memory.int32(2 * count);
    plainPairs(whole, leaf)(values, 0, count);
    return { count, values };
  }
  const values = memory.float64(count);
  numberReader({ ...whole, encoding: encodings.plain, count }, leaf)(values, 0, count);
  return { count, values };
}

/**
 * Most values of a dictionary of `bytes` bytes, which bounds the memory for its values. For
 * booleans, a bit would become an eight-byte number, but there are only two distinct values.
 */
function dictionaryMax({ kind, element }: Leaf, bytes: number): number {
  if (kind === "boolean") return bytes === 0 ? 0 : 2;
  return Math.floor(bytes / (valueBytes[element.type ?? ""] ?? 1));
}

/** Fewest bytes of a value; for a text, the bytes of its length. */
const valueBytes: Readonly<Record<string, number>> = {
  ...{ INT32: 4, FLOAT: 4, INT64: 8, DOUBLE: 8, INT96: 12, BYTE_ARRAY: 4 },
};

/** Creates the reader of a page's values. @throws CorruptFile */
export function valueReader(
  page: DataPage,
  leaf: Leaf,
  target: Target,
  dictionary: Dictionary | undefined,
): ValueReader {
  const { encoding } = page;
  if (encoding === encodings.dictionary || encoding === encodings.plainDictionary) {
    if (dictionary === undefined)
      throw new CorruptFile("a page needs a dictionary, and there is none");
    return dictionaryReader(page, target, dictionary);
  }
  switch (target.form) {
    case "numbers": {
      const read = numberReader(page, leaf);
      return (at, count) => read(target.values, at, count);
    }
    case "ids": {
      const read = pairReader(page, leaf);
      return (at, count) => {
        if (target.coded?.isWhole === true) uncode(target, target.coded, at, count);
        read(target.pairs, at, count);
      };
    }
    case "texts": {
      const next = textReader(page, leaf);
      return (at, count) => {
        for (let i = at; i < at + count; i++) target.codes[i] = target.pool.codeOf(next());
      };
    }
    default:
      return target satisfies never;
  }
}

function dictionaryReader(page: DataPage, target: Target, dictionary: Dictionary): ValueReader {
  const { bytes, start, end, decoders } = page;
  // A page without values may lack the byte with the bit width.
  const width = start < end ? (bytes[start] ?? 0) : 0;
  const reader = new HybridReader(bytes, Math.min(start + 1, end), end, width, decoders.readHybrid);
  const { count: size, values } = dictionary;
  const coded = target.form === "ids" ? target.coded : undefined;
  if (coded !== undefined && coded.dictionary.buffer !== values.buffer) {
    coded.dictionary = new BigInt64Array(values.buffer, 0, size);
  }
  return (first, count) => {
    if (coded?.isWhole === true) {
      if (count > 0) checkPlace(reader.read(coded.codes, first, count), size);
      return;
    }
    for (let at = first; at < first + count; at += placesMax) {
      const some = Math.min(placesMax, first + count - at);
      checkPlace(reader.read(places, 0, some), size);
      if (target.form === "texts") target.codes.set(places.subarray(0, some), at);
      else if (target.form === "ids") {
        if (values instanceof Int32Array)
          decoders.takePairs(target.pairs, at, values, places, some);
      } else if (values instanceof Float64Array) {
        decoders.takeNumbers(target.values, at, values, places, some);
      }
    }
  };
}

/** Converts the first `at` ids of the batch from codes to pairs, with room for `count` more. */
function uncode(target: IdTarget, coded: CodedTarget, at: number, count: number): void {
  if (target.pairs.length < 2 * (at + count)) target.pairs = new Int32Array(4 * (at + count));
  const ids = new BigInt64Array(target.pairs.buffer);
  idsOfCodes(ids, coded, at);
  coded.isWhole = false;
}

/** Writes the ids of the first `count` codes. */
export function idsOfCodes(
  ids: BigInt64Array,
  { codes, dictionary }: Pick<CodedTarget, "codes" | "dictionary">,
  count: number,
): void {
  for (let i = 0; i < count; i++) ids[i] = dictionary[codes[i] ?? 0] ?? 0n;
}

function checkPlace(most: number, size: number): void {
  if (most >= size) throw new CorruptFile(`a page names value ${most} of a dictionary of ${size}`);
}

type Encoded = PageBytes & {
  readonly encoding: number;
  /** Entries of the page, nulls included. */
  readonly count: number;
  readonly decoders: PageDecoders;
};

function pairReader(page: Encoded, leaf: Leaf): PairReader {
  switch (page.encoding) {
    case encodings.plain:
      return plainPairs(page, leaf);
    case encodings.split:
      return splitPairs(page, leaf);
    case encodings.delta:
      return deltaPairs(page, leaf);
    default:
      throw new CorruptFile(`a page has ${encodingName(page.encoding)}`);
  }
}

function numberReader(page: Encoded, leaf: Leaf): NumberReader {
  const { type } = leaf.element;
  const isPlain = page.encoding === encodings.plain;
  if (type === "INT32" || type === "INT64") return numbersOfPairs(pairReader(page, leaf), leaf);
  if (leaf.kind === "boolean") return isPlain ? plainBits(page) : hybridBits(page);
  const isFraction = leaf.kind === "fraction" && !leaf.isDecimal;
  const isFixed = isFixedBytes(leaf) && !isFraction;
  if (isPlain && isFixed) return fixedNumbers(page, leaf);
  if (isPlain && isFraction) return plainFractions(page, leaf);
  if (page.encoding === encodings.split && isFraction) return splitFractions(page, leaf);
  if (type === "BYTE_ARRAY" || isFixedBytes(leaf)) return numbersOfTexts(page, leaf);
  throw new CorruptFile(`a page has ${encodingName(page.encoding)}`);
}

/**
 * Whether values have a fixed byte length: decimals as bytes, float16, fixed text and INT96 times.
 */
function isFixedBytes({ element: { type } }: Leaf): boolean {
  return type === "FIXED_LEN_BYTE_ARRAY" || type === "INT96";
}

/** Reads numbers that are encoded like texts. */
function numbersOfTexts(page: Encoded, leaf: Leaf): NumberReader {
  const next = textReader(page, leaf);
  const numberOf = fixedNumberOf(leaf);
  return (out, at, count) => {
    for (let i = at; i < at + count; i++) out[i] = numberOf(Buffer.from(next(), "latin1"));
  };
}

/** Reads booleans in the RLE hybrid: a length, then one bit per value. */
function hybridBits({ bytes, start, end, encoding, decoders }: Encoded): NumberReader {
  if (encoding !== encodings.rle) throw new CorruptFile(`a page has ${encodingName(encoding)}`);
  const reader = new HybridReader(bytes, Math.min(start + 4, end), end, 1, decoders.readHybrid);
  const bits = new Int32Array(placesMax);
  return (out, first, count) => {
    for (let at = first; at < first + count; at += placesMax) {
      const some = Math.min(placesMax, first + count - at);
      reader.read(bits, 0, some);
      for (let i = 0; i < some; i++) out[at + i] = bits[i] ?? 0;
    }
  };
}

/** Creates the reader of a page's texts. */
function textReader(page: Encoded, leaf: Leaf): () => string {
  const { bytes, start, end, encoding } = page;
  if (leaf.kind === "boolean") {
    const read = numberReader(page, leaf);
    const one = new Float64Array(1);
    return () => {
      read(one, 0, 1);
      return one[0] === 1 ? "true" : "false";
    };
  }
  const texts = new PlainTexts(bytes, start, end);
  const isFixed = isFixedBytes(leaf);
  const length = isFixed ? widthOf(leaf) : 0;
  if (encoding === encodings.plain) return isFixed ? () => texts.fixed(length) : () => texts.next();
  if (encoding === encodings.deltaLength && !isFixed) return deltaLengths(page).next;
  if (encoding === encodings.deltaText) {
    return isFixed ? ofLength(deltaTexts(page), length) : deltaTexts(page);
  }
  if (encoding === encodings.split && isFixed) return splitTexts(page, length);
  throw new CorruptFile(`a page has ${encodingName(encoding)}`);
}

/** Checks that every text has `length` bytes. */
function ofLength(next: () => string, length: number): () => string {
  return () => {
    const text = next();
    if (text.length === length) return text;
    throw new CorruptFile(`a value has ${text.length} bytes, and the schema says ${length}`);
  };
}

/** Reads BYTE_STREAM_SPLIT: the first bytes of all values, then all second bytes, and so on. */
function splitTexts({ bytes, start, end }: PageBytes, length: number): () => string {
  if (length < 1) throw new CorruptFile(`its values have ${length} bytes`);
  const values = Math.floor((end - start) / length);
  const one = Buffer.alloc(length);
  let from = 0;
  return () => {
    if (from >= values) throw new CorruptFile("a page has fewer values than it says");
    for (let i = 0; i < length; i++) one[i] = bytes[start + i * values + from] ?? 0;
    from++;
    return one.toString("latin1");
  };
}

/** Most texts of a page whose lengths are decoded up front. */
const textsMax = 1 << 24;

type Lengths = PageBytes & Pick<Encoded, "count">;

/** Reads the lengths in front of the texts, as DELTA_BINARY_PACKED. */
function readLengths({ bytes, start, end, count: countMax }: Lengths) {
  const reader = new DeltaReader(bytes, start, end, false);
  const count = reader.left;
  if (count > Math.min(textsMax, countMax))
    throw new CorruptFile(`a page says that it has ${count} texts`);
  const pairs = new Int32Array(2 * count);
  reader.read(pairs, 0, count);
  const lengthAt = (i: number): number => {
    const length = i < count ? (pairs[2 * i] ?? -1) : -1;
    if (length < 0) throw new CorruptFile("a page has fewer texts than it says");
    return length;
  };
  return { lengthAt, end: reader.end };
}

function deltaLengths(page: Lengths) {
  const lengths = readLengths(page);
  const texts = new PlainTexts(page.bytes, lengths.end, page.end);
  let at = 0;
  return { next: () => texts.fixed(lengths.lengthAt(at++)) };
}

/** Reads DELTA_BYTE_ARRAY: texts that share a prefix with the previous text. */
function deltaTexts(page: Lengths): () => string {
  const shared = readLengths(page);
  const rest = deltaLengths({ ...page, start: shared.end });
  let before = "";
  let made = 0;
  let at = 0;
  return () => {
    const length = shared.lengthAt(at++);
    if (length > before.length)
      throw new CorruptFile("a text shares more than the one before it has");
    before = before.slice(0, length) + rest.next();
    made += before.length;
    checkUnpacked("a page of texts with common beginnings", made, page.end - page.start);
    return before;
  };
}

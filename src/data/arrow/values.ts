// The values of a leaf in a record batch or in a dictionary, by position. Buffer lengths are
// checked before any value is read; an offset or a code is checked when it is read.

import { Type } from "apache-arrow/fb/type";
import { decimalOf, halfOf } from "../parquet/decode/numbers.ts";
import { CorruptFile } from "../tables/damage.ts";
import type { ColumnBytes, FieldPlace } from "./batch-buffers.ts";
import type { BatchLayout, IntegerType } from "./metadata.ts";
import type { ArrowLeaf } from "./shapes.ts";

/** Values by position. Each kind of leaf supports some of the accessors: see `formOf`. */
export interface Values {
  readonly length: number;
  readonly isThere: (at: number) => boolean;
  readonly numberAt: (at: number) => number;
  /** The lower and the upper half of an integer of 64 bits. */
  readonly lowAt: (at: number) => number;
  readonly highAt: (at: number) => number;
  /** The text at a position, one character per byte (latin1). */
  readonly textAt: (at: number) => string;
  /** For dictionary-encoded texts: all texts of the dictionary, and the code of a value. */
  readonly texts?: readonly string[] | undefined;
  readonly codeAt?: ((at: number) => number) | undefined;
}

/** The values of a dictionary, and its texts. */
export interface ArrowDictionary {
  readonly values: Values;
  /** All of its texts, one character per byte, decoded once. A missing text is empty. */
  readonly texts: () => readonly string[];
}

/** The layout, buffers and dictionaries that the values of a field are read from. */
export interface Source {
  readonly layout: BatchLayout;
  readonly bytes: ColumnBytes;
  /** The dictionaries of the leaves, by id, in their state at this batch. */
  readonly dictionaries: ReadonlyMap<number, ArrowDictionary>;
}

/** Opens the values of a leaf. @throws CorruptFile */
export function valuesOf(place: FieldPlace, leaf: ArrowLeaf, source: Source): Values {
  const { field, kind } = leaf;
  if (field.type === Type.Null && field.dictionary === undefined) return nullsOf(place, source);
  const { length, isThere } = nodeOf(place, source);
  const own = { ...noValues, length, isThere };
  if (field.dictionary !== undefined) return inDictionary(place, leaf, source, own);
  const bytes = bufferOf(place, 1, source);
  switch (kind) {
    case "integer":
      return { ...own, ...integers(bytes, field, length, 1) };
    case "boolean":
      return { ...own, ...booleans(bytes, length) };
    case "fraction":
      return { ...own, ...fractions(bytes, place, length) };
    case "moment":
      return { ...own, ...integers(bytes, { ...field, isUnsigned: false }, length, field.divisor) };
    case "text":
      return { ...own, textAt: textsOf(place, source, length) };
    default:
      return kind satisfies never;
  }
}

/** Most nulls of a batch. Nulls take no bytes, so the size of the file does not limit them. */
const nullsMax = 2 ** 31;

/**
 * The values of a column of the type Null, which has no buffers and no values. @throws CorruptFile
 */
function nullsOf(place: FieldPlace, { layout }: Source): Values {
  const { length } = layout.node(place.node);
  if (length > nullsMax) throw new CorruptFile(`it has ${length} nulls, more than ${nullsMax}`);
  return { ...noValues, length, isThere: () => false };
}

/** The number of values of a field, and its validity bitmap as a function. @throws CorruptFile */
export function nodeOf(
  place: FieldPlace,
  source: Source,
): { readonly length: number; readonly isThere: (at: number) => boolean } {
  const { length, nulls } = source.layout.node(place.node);
  const bits = bufferOf(place, 0, source);
  if (bits.length === 0) {
    if (nulls > 0) throw new CorruptFile(`${nulls} of its values are missing, but not marked`);
    return { length, isThere: () => true };
  }
  checkLength(bits, Math.ceil(length / 8), `${length} validity bits`);
  if (nulls === 0) return { length, isThere: () => true };
  return { length, isThere: (at) => (((bits[at >> 3] ?? 0) >> (at & 7)) & 1) === 1 };
}

/** The bytes of buffer `i` of a field. */
export function bufferOf({ buffer }: FieldPlace, i: number, { bytes }: Source): Uint8Array {
  return bytes.get(buffer + i) ?? new Uint8Array(0);
}

/**
 * The offsets of lists or texts: entry `at` spans from offset `at` to offset `at + 1`.
 * @throws CorruptFile
 */
export function offsetsOf(
  place: FieldPlace,
  source: Source,
  length: number,
): (at: number) => number {
  const isLarge = largeTypes.has(place.field.type);
  const bytes = bufferOf(place, 1, source);
  if (length === 0 && bytes.length === 0) return () => 0;
  const type = { bits: isLarge ? 64 : 32, isUnsigned: false };
  return integers(bytes, type, length + 1, 1).numberAt;
}

const largeTypes = new Set([Type.LargeList, Type.LargeUtf8, Type.LargeBinary]);

function otherKind(): never {
  throw new TypeError("values of another kind");
}

const noValues = { numberAt: otherKind, lowAt: otherKind, highAt: otherKind, textAt: otherKind };

type Integers = Pick<Values, "numberAt" | "lowAt" | "highAt" | "textAt">;

function integers(
  bytes: Uint8Array,
  { bits, isUnsigned }: IntegerType,
  length: number,
  divisor: number,
): Integers {
  checkLength(bytes, (length * bits) / 8, `${length} values`);
  const [lowAt, highAt] = halves(bytes, bits, isUnsigned, length);
  const numberAt = (at: number) => {
    const high = highAt(at);
    return ((isUnsigned ? high >>> 0 : high) * 0x1_0000_0000 + (lowAt(at) >>> 0)) / divisor;
  };
  return { lowAt, highAt, numberAt, textAt: otherKind };
}

type HalfAt = (at: number) => number;

function halves(bytes: Uint8Array, bits: number, isUnsigned: boolean, length: number) {
  const { buffer, byteOffset } = aligned(bytes);
  const small = (values: Int8Array | Uint8Array | Int16Array | Uint16Array): [HalfAt, HalfAt] => {
    return [(at) => values[at] ?? 0, (at) => (values[at] ?? 0) >> 31];
  };
  switch (bits) {
    case 8:
      return isUnsigned
        ? small(new Uint8Array(buffer, byteOffset, length))
        : small(new Int8Array(buffer, byteOffset, length));
    case 16:
      return isUnsigned
        ? small(new Uint16Array(buffer, byteOffset, length))
        : small(new Int16Array(buffer, byteOffset, length));
    case 32: {
      const values = new Int32Array(buffer, byteOffset, length);
      const high: HalfAt = isUnsigned ? () => 0 : (at) => (values[at] ?? 0) >> 31;
      return [(at: number) => values[at] ?? 0, high] as const;
    }
    case 64: {
      const pairs = new Int32Array(buffer, byteOffset, 2 * length);
      return [(at: number) => pairs[2 * at] ?? 0, (at: number) => pairs[2 * at + 1] ?? 0] as const;
    }
    default:
      throw new CorruptFile(`its integers have ${bits} bits`);
  }
}

function booleans(
  bytes: Uint8Array,
  length: number,
): Pick<Values, "numberAt" | "textAt" | "texts" | "codeAt"> {
  checkLength(bytes, Math.ceil(length / 8), `${length} values`);
  const numberAt = (at: number) => ((bytes[at >> 3] ?? 0) >> (at & 7)) & 1;
  return { numberAt, textAt: otherKind, texts: booleanTexts, codeAt: numberAt };
}

const booleanTexts = ["false", "true"];

function fractions(
  bytes: Uint8Array,
  { field: { type, bits, divisor } }: FieldPlace,
  length: number,
): Pick<Values, "numberAt"> & { readonly textAt?: Values["textAt"] } {
  checkLength(bytes, (length * bits) / 8, `${length} values`);
  const { buffer, byteOffset } = aligned(bytes);
  if (type === Type.Decimal) {
    const width = bits / 8;
    // Arrow stores decimals little-endian; `decimalOf` takes big-endian bytes.
    const bytesAt = (at: number) => bytes.slice(at * width, (at + 1) * width).reverse();
    return {
      numberAt: (at) => decimalOf(bytesAt(at), divisor),
      textAt: (at) => nodeBuffer(bytesAt(at)).toString("latin1"),
    };
  }
  switch (bits) {
    case 16: {
      const values = new Uint16Array(buffer, byteOffset, length);
      return { numberAt: (at) => halfOf(values[at] ?? 0) };
    }
    case 32: {
      const values = new Float32Array(buffer, byteOffset, length);
      return { numberAt: (at) => values[at] ?? 0 };
    }
    case 64: {
      const values = new Float64Array(buffer, byteOffset, length);
      return { numberAt: (at) => values[at] ?? 0 };
    }
    default:
      throw new CorruptFile(`its fractions have ${bits} bits`);
  }
}

function textsOf(place: FieldPlace, source: Source, length: number): (at: number) => string {
  const { type, size } = place.field;
  if (type === Type.Utf8View || type === Type.BinaryView) return viewTexts(place, source, length);
  if (type === Type.FixedSizeBinary) {
    const bytes = bufferOf(place, 1, source);
    checkLength(bytes, length * size, `${length} values`);
    const texts = nodeBuffer(bytes);
    return (at) => texts.toString("latin1", at * size, (at + 1) * size);
  }
  const offsetAt = offsetsOf(place, source, length);
  const texts = nodeBuffer(bufferOf(place, 2, source));
  return (at) => {
    const [start, end] = [offsetAt(at), offsetAt(at + 1)];
    if (start >= 0 && start <= end && end <= texts.length) {
      return texts.toString("latin1", start, end);
    }
    throw new CorruptFile(`text ${at} lies at the bytes ${start} to ${end} of ${texts.length}`);
  };
}

/**
 * Texts of a view. Up to 12 bytes are inline in the 16 bytes of the view; for a longer text, the
 * view holds the index of a data buffer and an offset.
 */
function viewTexts(place: FieldPlace, source: Source, length: number): (at: number) => string {
  const views = nodeBuffer(bufferOf(place, 1, source));
  checkLength(views, 16 * length, `${length} values`);
  const buffers = Array.from({ length: place.buffers - 2 }, (_, i) => {
    return nodeBuffer(bufferOf(place, 2 + i, source));
  });
  return (at) => {
    const bytes = views.readInt32LE(16 * at);
    if (bytes >= 0 && bytes <= 12)
      return views.toString("latin1", 16 * at + 4, 16 * at + 4 + bytes);
    const [which, start] = [views.readInt32LE(16 * at + 8), views.readInt32LE(16 * at + 12)];
    const texts = buffers[which];
    if (bytes > 12 && texts !== undefined && start >= 0 && start + bytes <= texts.length) {
      return texts.toString("latin1", start, start + bytes);
    }
    const end = start + bytes;
    const of = texts === undefined ? "which is not there" : `which has ${texts.length}`;
    throw new CorruptFile(
      `text ${at} lies at the bytes ${start} to ${end} of buffer ${which}, ${of}`,
    );
  };
}

/** Dictionary-encoded values: each code is looked up in the dictionary. */
function inDictionary(
  place: FieldPlace,
  { field, kind }: ArrowLeaf,
  source: Source,
  own: Values,
): Values {
  const { length, isThere } = own;
  const { id, ...type } = field.dictionary ?? { id: 0, bits: 32, isUnsigned: false };
  const codes = integers(bufferOf(place, 1, source), type, length, 1).numberAt;
  const dictionary = source.dictionaries.get(id);
  if (dictionary === undefined) throw new TypeError("the dictionary of a wanted column");
  const { values } = dictionary;
  const codeAt = (at: number) => {
    const code = codes(at);
    if (code >= 0 && code < values.length) return code;
    throw new CorruptFile(`value ${at} is entry ${code} of a dictionary of ${values.length}`);
  };
  const texts = kind === "text" ? { texts: dictionary.texts(), codeAt } : {};
  return {
    length,
    isThere: (at) => isThere(at) && values.isThere(codeAt(at)),
    numberAt: (at) => values.numberAt(codeAt(at)),
    lowAt: (at) => values.lowAt(codeAt(at)),
    highAt: (at) => values.highAt(codeAt(at)),
    textAt: (at) => values.textAt(codeAt(at)),
    ...texts,
  };
}

function checkLength(bytes: Uint8Array, least: number, of: string): void {
  if (bytes.length >= least) return;
  throw new CorruptFile(`a buffer has ${bytes.length} bytes, fewer than ${of} take`);
}

/** The same bytes at a multiple of 8, as typed arrays of any width require. */
function aligned(bytes: Uint8Array): { readonly buffer: ArrayBufferLike; byteOffset: number } {
  return bytes.byteOffset % 8 === 0 ? bytes : bytes.slice();
}

function nodeBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

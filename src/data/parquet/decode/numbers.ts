// Decodes values in the encodings PLAIN, BYTE_STREAM_SPLIT and DELTA_BINARY_PACKED: integers as
// pairs of 32-bit halves, fractions as doubles. Readers keep their position between calls.

import { CorruptFile } from "../../tables/damage.ts";
import type { Leaf } from "../shapes.ts";
import { DeltaReader } from "./delta.ts";

/** Byte range of a page's values. */
export interface PageBytes {
  readonly bytes: Uint8Array;
  readonly start: number;
  readonly end: number;
}

/** Writes the next `count` integers as pairs, low half first, from pair `at` on. */
export type PairReader = (pairs: Int32Array, at: number, count: number) => void;

/** Writes the next `count` numbers from `out[at]` on. */
export type NumberReader = (out: Float64Array, at: number, count: number) => void;

/** Reads integers in PLAIN: 4 or 8 bytes each. */
export function plainPairs(page: PageBytes, { element, isUnsigned }: Leaf): PairReader {
  const { bytes, end } = page;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const width = element.type === "INT32" ? 4 : 8;
  let from = page.start;
  return (pairs, at, count) => {
    checkLeft(count, width, end - from);
    if (width === 8) {
      const out = new Uint8Array(pairs.buffer, pairs.byteOffset, pairs.byteLength);
      out.set(bytes.subarray(from, from + 8 * count), 8 * at);
      from += 8 * count;
      return;
    }
    for (let i = 2 * at; i < 2 * (at + count); i += 2, from += width) {
      const low = view.getInt32(from, true);
      pairs[i] = low;
      pairs[i + 1] = isUnsigned ? 0 : low >> 31;
    }
  };
}

/**
 * Reads integers in BYTE_STREAM_SPLIT: the first bytes of all values, then all second bytes, and so
 * on.
 */
export function splitPairs(page: PageBytes, { element, isUnsigned }: Leaf): PairReader {
  const { bytes, start } = page;
  const width = element.type === "INT32" ? 4 : 8;
  const values = Math.floor((page.end - start) / width);
  let from = 0;
  const half = (first: number) => {
    let value = 0;
    for (let i = 0; i < 4; i++) {
      value |= (bytes[start + (first + i) * values + from] ?? 0) << (8 * i);
    }
    return value;
  };
  return (pairs, at, count) => {
    checkLeft(count, 1, values - from);
    for (let i = 2 * at; i < 2 * (at + count); i += 2, from++) {
      const low = half(0);
      pairs[i] = low;
      pairs[i + 1] = width === 8 ? half(4) : isUnsigned ? 0 : low >> 31;
    }
  };
}

/** Reads integers in DELTA_BINARY_PACKED. */
export function deltaPairs({ bytes, start, end }: PageBytes, leaf: Leaf): PairReader {
  const isWide = leaf.element.type === "INT64";
  const reader = new DeltaReader(bytes, start, end, isWide);
  return (pairs, at, count) => {
    reader.read(pairs, at, count);
    if (isWide || !leaf.isUnsigned) return;
    for (let i = at; i < at + count; i++) pairs[2 * i + 1] = 0;
  };
}

/** Integers converted per step. */
const some = 4096;
/** Scratch memory for these integers; its content is not used across calls. */
const pairs = new Int32Array(2 * some);

/**
 * Converts integers to the numbers that they represent: decimals, times, or the integers
 * themselves.
 */
export function numbersOfPairs(read: PairReader, { isUnsigned, divisor }: Leaf): NumberReader {
  return (out, first, count) => {
    for (let at = first; at < first + count; at += some) {
      const length = Math.min(some, first + count - at);
      read(pairs, 0, length);
      for (let i = 0; i < length; i++) {
        const high = pairs[2 * i + 1] ?? 0;
        const value =
          (isUnsigned ? high >>> 0 : high) * 0x1_0000_0000 + ((pairs[2 * i] ?? 0) >>> 0);
        out[at + i] = value / divisor;
      }
    }
  };
}

/** Reads floats, doubles and halves in PLAIN. */
export function plainFractions({ bytes, start, end }: PageBytes, leaf: Leaf): NumberReader {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const width = widthOf(leaf);
  let from = start;
  return (out, at, count) => {
    checkLeft(count, width, end - from);
    if (width === 8) {
      for (let i = at; i < at + count; i++, from += 8) out[i] = view.getFloat64(from, true);
    } else if (width === 4) {
      for (let i = at; i < at + count; i++, from += 4) out[i] = view.getFloat32(from, true);
    } else {
      for (let i = at; i < at + count; i++, from += 2) out[i] = halfOf(view.getUint16(from, true));
    }
  };
}

/** Reads floats, doubles and halves in BYTE_STREAM_SPLIT. */
export function splitFractions({ bytes, start, end }: PageBytes, leaf: Leaf): NumberReader {
  const width = widthOf(leaf);
  const values = Math.floor((end - start) / width);
  let from = 0;
  const one = new Uint8Array(8);
  return (out, at, count) => {
    checkLeft(count, 1, values - from);
    for (let i = at; i < at + count; i++, from++) {
      for (let j = 0; j < width; j++) one[j] = bytes[start + j * values + from] ?? 0;
      plainFractions({ bytes: one, start: 0, end: width }, leaf)(out, i, 1);
    }
  };
}

/** Reads booleans in PLAIN: one bit each, lowest bit of a byte first. */
export function plainBits({ bytes, start, end }: PageBytes): NumberReader {
  let bit = 0;
  return (out, at, count) => {
    checkLeft(count, 1, (end - start) * 8 - bit);
    for (let i = at; i < at + count; i++, bit++) {
      out[i] = ((bytes[start + (bit >> 3)] ?? 0) >> (bit & 7)) & 1;
    }
  };
}

/** Reads numbers of fixed byte length: decimals as bytes, and INT96 times. */
export function fixedNumbers({ bytes, start, end }: PageBytes, leaf: Leaf): NumberReader {
  const width = widthOf(leaf);
  if (width < 1) throw new CorruptFile(`its values have ${width} bytes`);
  const numberOf = fixedNumberOf(leaf);
  let from = start;
  return (out, at, count) => {
    checkLeft(count, width, end - from);
    for (let i = at; i < at + count; i++, from += width) {
      out[i] = numberOf(bytes.subarray(from, from + width));
    }
  };
}

/**
 * Returns the conversion of a value's bytes: from a decimal, an INT96 time (to seconds) or a
 * float16.
 */
export function fixedNumberOf({ kind, isDecimal, divisor }: Leaf): (bytes: Uint8Array) => number {
  if (kind === "moment") return secondsOf;
  if (isDecimal) return (bytes) => decimalOf(bytes, divisor);
  return ([low = 0, high = 0]) => halfOf(low | (high << 8));
}

/** Most bytes of a decimal: 76 digits, the maximum of any supported format (Arrow's decimal256). */
const decimalBytesMax = 32;

/**
 * The number of a decimal in big-endian bytes, divided by `divisor`. @throws CorruptFile if it has
 * more bytes than any decimal, because the conversion takes time quadratic in their number
 */
export function decimalOf(bytes: Uint8Array, divisor: number): number {
  if (bytes.length > decimalBytesMax) {
    throw new CorruptFile(
      `a decimal has ${bytes.length} bytes, more than the limit of ${decimalBytesMax}`,
    );
  }
  let value = 0n;
  for (const one of bytes) value = value * 256n + BigInt(one);
  value = BigInt.asIntN(8 * bytes.length, value);
  // The quotient of two exact doubles is the nearest double. Larger values go through text, which
  // rounds only once.
  if (BigInt.asIntN(53, value) === value) return Number(value) / divisor;
  return Number(`${value}e-${Math.round(Math.log10(divisor))}`);
}

/**
 * Seconds since 1970 of an INT96 time: a Julian day and nanoseconds within it. Some writers use
 * negative nanoseconds for times before 1970.
 */
function secondsOf(bytes: Uint8Array): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const nanoseconds = view.getBigInt64(0, true);
  return (view.getInt32(8, true) - 2_440_588) * 86_400 + Number(nanoseconds) / 1e9;
}

/** Bytes of a value. */
export function widthOf({ element, kind, isDecimal }: Leaf): number {
  switch (element.type) {
    case "DOUBLE":
      return 8;
    case "FLOAT":
      return 4;
    case "INT96":
      return 12;
    default:
      return kind === "fraction" && !isDecimal ? 2 : (element.type_length ?? 0);
  }
}

/** IEEE 754 binary16: a sign, five bits of exponent, ten of fraction. */
export function halfOf(bits: number): number {
  const sign = bits >> 15 === 0 ? 1 : -1;
  const [exponent, fraction] = [(bits >> 10) & 31, bits & 1023];
  if (exponent === 31) return fraction === 0 ? sign * Infinity : Number.NaN;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  return sign * (1024 + fraction) * 2 ** (exponent - 25);
}

function checkLeft(count: number, width: number, left: number): void {
  if (count * width > left) throw new CorruptFile("a page has fewer values than it says");
}

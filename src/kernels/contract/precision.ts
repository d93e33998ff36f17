// Storage of row weights in fewer bits: float16, bfloat16 and int8. Arithmetic is always float32. A
// stored weight is a float32 that its code represents exactly, so decoding (for a checkpoint, a
// digest, another tier) and encoding again gives the same code.
//
// int8: a quantum of 32 columns is codes -127..127 times 2^exponent, with the smallest exponent
// that fits the largest weight (docs/decisions/0009-codes-of-int8-rows.md: why a power of two,
// where other systems use a free scale and an offset per row). The exponent is per quantum, so that
// a row split by columns has the same codes.
//
// Only the update rounds stochastically: a weight between two neighbours is rounded up with a
// probability equal to its distance from the lower one, so that updates smaller than a step are not
// lost (as FBGEMM rounds float16 tables). Each weight takes 16 random bits: half c%2 of word c%8/2
// of philox at counter [index low, index high, step, purpose], with index = row * (D/8 rounded up)
// + c/8 for row and column c of the whole table, D wide. So a tile rounds as the whole table does.
// Philox runs 7 rounds, the fewest in which its authors' tests found no flaw.

import { type Key, philox } from "../../ports/random.ts";
import { quantumColumns } from "./tensor.ts";

export type Precision = "float32" | "float16" | "bfloat16" | "int8";

/**
 * Precisions of exchanged vectors: also the floats of 8 bits, with 4 bits of exponent and 3 of
 * mantissa, or 5 and 2 (OCP's E4M3 and E5M2: Micikevicius et al., arXiv 2209.05433; PyTorch's
 * `float8_e4m3fn`, `float8_e5m2`). Numbers round to nearest, ties to even. Beyond the largest (448,
 * 57,344) they become NaN in E4M3, which has no infinities, and infinities in E5M2.
 */
export type WirePrecision = Precision | Float8;
export type Float8 = "float8e4m3" | "float8e5m2";

export function isFloat8(precision: WirePrecision): precision is Float8 {
  return precision === "float8e4m3" || precision === "float8e5m2";
}

/** Codes of stored weights, by row; empty for float32. */
export type Codes = Uint16Array | Int8Array;

const roundingRounds = 7;

/** The random stream of stochastic rounding, for one table at one step. */
export interface Rounding {
  readonly key: Key;
  readonly purpose: number;
  readonly step: number;
}

/** Bytes of one stored weight. An int8 row has one more byte for each exponent. */
export function weightBytes(precision: WirePrecision): number {
  switch (precision) {
    case "float32":
      return 4;
    case "float16":
    case "bfloat16":
      return 2;
    case "int8":
    case "float8e4m3":
    case "float8e5m2":
      return 1;
    default:
      return precision satisfies never;
  }
}

/** Bytes of `samples` times `columns` values packed by `packColumns`: a multiple of 4. */
export function packedBytes(samples: number, columns: number, precision: WirePrecision): number {
  const exponents = precision === "int8" ? Math.ceil(columns / quantumColumns) : 0;
  return 4 * Math.ceil((samples * (columns * weightBytes(precision) + exponents)) / 4);
}

/** Zeroed codes for `length` weights. */
export function createCodes(precision: Precision, length: number): Codes {
  if (precision === "int8") return new Int8Array(length);
  return new Uint16Array(precision === "float32" ? 0 : length);
}

/** Zeroed exponents for rows of `dim` columns; empty unless int8. */
export function createExponents(precision: Precision, rows: number, dim: number): Int8Array {
  return new Int8Array(precision === "int8" ? rows * Math.ceil(dim / quantumColumns) : 0);
}

const word = new Float32Array(1);
const bitsOfWord = new Uint32Array(word.buffer);

/** The bits of a float32. */
export function bitsOf(value: number): number {
  word[0] = value;
  return bitsOfWord[0]!;
}

function fromBits(bits: number): number {
  bitsOfWord[0] = bits;
  return word[0]!;
}

/** Powers of two from 2^-128 to 2^128: computing one with `**` takes as long as a whole row. */
const powers = Float64Array.from({ length: 257 }, (_, i) => 2 ** (i - 128));

function powerOfTwo(exponent: number): number {
  return powers[exponent + 128]!;
}

/** Decodes a weight. `exponent`: the exponent of its quantum, for int8. */
export function decode(precision: Precision, code: number, exponent: number): number {
  switch (precision) {
    case "bfloat16":
      return fromBits(code << 16);
    case "float16": {
      const [sign, rest] = [code & 0x8000, code & 0x7fff];
      // The shifted value is too small by a factor of 2^112, also for subnormals. NaN and infinity
      // need the exponent of float32.
      const isNumber = rest < 0x7c00;
      const value = isNumber
        ? fromBits(rest << 13) * powerOfTwo(112)
        : fromBits((rest << 13) | 0x7f80_0000);
      return sign === 0 ? value : -value;
    }
    case "int8":
      return code * powerOfTwo(exponent);
    case "float32":
      throw new RangeError("float32 weights have no codes");
    default:
      return precision satisfies never;
  }
}

/** The exponent of a quantum: the smallest that gives its largest weight an int8 code. */
export function exponentOf(weights: ArrayLike<number>): number {
  let largest = 0;
  for (let c = 0; c < weights.length; c++) {
    const size = Math.abs(Math.fround(weights[c]!));
    if (size > largest) largest = size;
  }
  // For e = k - 6, 127 * 2^e covers 2^k .. 127/64 * 2^k; larger weights need e + 1.
  const bits = bitsOf(largest);
  const above = (bits & 0x7f_ffff) > 0x7e_0000 ? 1 : 0;
  return Math.max(-126, Math.min(121, (bits >>> 23) - 127 - 6 + above));
}

/**
 * Encodes a float32. `random`: 16 random bits, which decide whether to round up; undefined: rounds
 * to nearest.
 */
export function encode(
  precision: Precision,
  value: number,
  exponent: number,
  random: number | undefined,
): number {
  switch (precision) {
    case "bfloat16": {
      const bits = bitsOf(value);
      if (Number.isNaN(value)) return 0x7fc0;
      const noise = random ?? 0x7fff + ((bits >>> 16) & 1);
      return ((bits + noise) >>> 16) & 0xffff;
    }
    case "float16":
      return encodeFloat16(value, random);
    case "int8": {
      const scaled = Math.fround(value * powerOfTwo(-exponent));
      const noise = random === undefined ? 0.5 : random * 2 ** -16;
      const code = Math.floor(Math.fround(scaled + noise));
      return Number.isNaN(code) ? -128 : Math.max(-127, Math.min(127, code));
    }
    case "float32":
      throw new RangeError("float32 weights have no codes");
    default:
      return precision satisfies never;
  }
}

function encodeFloat16(value: number, random: number | undefined): number {
  if (Number.isNaN(value)) return 0x7e00;
  const sign = (bitsOf(value) >>> 16) & 0x8000;
  const exact = Math.fround(Math.abs(value));
  // Rounds subnormals to nearest only once: a double's step at 2^28 equals that of float16
  // subnormals.
  const size = random === undefined && exact < 2 ** -14 ? exact + 2 ** 28 - 2 ** 28 : exact;
  // Subnormals have the step of the lowest normal binade: shift them into it for the rounding.
  const isSmall = size < 2 ** -14;
  const bits = bitsOf(isSmall ? Math.fround(size + 2 ** -14) : size);
  const noise = random === undefined ? 0xfff + ((bits >>> 13) & 1) : random & 0x1fff;
  const kept = (bits + noise) >>> 13;
  if (kept >= 0x47800000 >>> 13) return sign | 0x7c00;
  return sign | (kept - ((isSmall ? 113 : 112) << 10));
}

/** Decodes row `row` into out (D). */
export function decodeRow(
  out: Float32Array | Float64Array,
  from: { precision: Precision; codes: Codes; exponents: Int8Array },
  row: number,
): void {
  const { precision, codes, exponents } = from;
  const dim = out.length;
  const quanta = row * Math.ceil(dim / quantumColumns);
  for (let c = 0; c < dim; c++) {
    const exponent = exponents[quanta + Math.floor(c / quantumColumns)] ?? 0;
    out[c] = decode(precision, codes[row * dim + c]!, exponent);
  }
}

/** The memory of coded rows and, for a tile, its position in its table. */
interface Coded {
  readonly precision: Precision;
  readonly codes: Codes;
  readonly exponents: Int8Array;
  /** @default 0 */
  readonly firstRow?: number;
  /** @default 0 */
  readonly firstColumn?: number;
  /** @default the columns of the row */
  readonly tableDim?: number;
  /** For a cache's slots, the row in each slot. @default the slot */
  readonly names?: Int32Array;
}

/** Encodes weights (D) as row `row`: stochastically with `rounding`, to nearest without it. */
export function encodeRow(
  to: Coded,
  row: number,
  weights: ArrayLike<number>,
  rounding?: Rounding,
): void {
  const { precision, codes, exponents, firstRow = 0, firstColumn = 0 } = to;
  const dim = weights.length;
  const quanta = row * Math.ceil(dim / quantumColumns);
  const words = new Uint32Array(4);
  let exponent = 0;
  for (let c = 0; c < dim; c++) {
    if (precision === "int8" && c % quantumColumns === 0) {
      exponent = exponentOf(quantumOf(weights, c));
      exponents[quanta + c / quantumColumns] = exponent;
    }
    if (rounding !== undefined && c % 8 === 0) {
      const before = (firstRow + (to.names?.[row] ?? row)) * Math.ceil((to.tableDim ?? dim) / 8);
      const index = before + (firstColumn + c) / 8;
      const { key, step, purpose } = rounding;
      const high = Math.floor(index / 2 ** 32) >>> 0;
      philox(words, key, [index >>> 0, high, step >>> 0, purpose >>> 0], roundingRounds);
    }
    const half = (words[(c % 8) >> 1]! >>> (16 * (c % 2))) & 0xffff;
    const random = rounding === undefined ? undefined : half;
    codes[row * dim + c] = encode(precision, Math.fround(weights[c]!), exponent, random);
  }
}

/** The weights of the quantum that begins at column `first`. */
function quantumOf(weights: ArrayLike<number>, first: number): ArrayLike<number> {
  const columns = Math.min(quantumColumns, weights.length - first);
  if (weights instanceof Float32Array) return weights.subarray(first, first + columns);
  return Array.from({ length: columns }, (_, c) => weights[first + c]!);
}

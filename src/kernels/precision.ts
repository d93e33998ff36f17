// How weights of rows are stored in fewer bits: float16, bfloat16 and int8 by rows. Arithmetic is
// float32 always; a stored weight is a float32 that its code gives back exactly, so whatever is
// decoded (for a checkpoint, a digest, another tier) is encoded again to the same code.
//
// int8: a row is codes -127..127 times 2^exponent, one exponent a row, the smallest that holds the
// row's largest weight. A power of two, where others keep a free scale and an offset: it costs up
// to one bit and makes every stored weight exact.
//
// Stochastic rounding happens in the update and nowhere else: a weight between two neighbours takes
// the upper one as often as it lies nearer to it, so that updates smaller than a step are not lost
// (papers.md 1.5). The random words are those of philox at [index low, index high, step, purpose],
// as in `Kernels.uniform`: index = row * (D rounded up to a multiple of 4) + column.

import { type Key, philox } from "../random.ts";

export type Precision = "float32" | "float16" | "bfloat16" | "int8";

/** Codes of stored weights, by row; none where they are float32. */
export type Codes = Uint16Array | Int8Array;

/** Which random numbers round: those of one table at one step. */
export interface Rounding {
  readonly key: Key;
  readonly purpose: number;
  readonly step: number;
}

/** Bytes of one stored weight; an int8 row has one more for its exponent. */
export function weightBytes(precision: Precision): number {
  switch (precision) {
    case "float32":
      return 4;
    case "float16":
    case "bfloat16":
      return 2;
    case "int8":
      return 1;
    default:
      return precision satisfies never;
  }
}

/** Zeroed codes for `length` weights. */
export function createCodes(precision: Precision, length: number): Codes {
  if (precision === "int8") return new Int8Array(length);
  return new Uint16Array(precision === "float32" ? 0 : length);
}

const word = new DataView(new ArrayBuffer(4));

function bitsOf(value: number): number {
  word.setFloat32(0, value);
  return word.getUint32(0);
}

function fromBits(bits: number): number {
  word.setUint32(0, bits);
  return word.getFloat32(0);
}

/** The weight that a code stands for. `exponent`: of an int8 row. */
export function decode(precision: Precision, code: number, exponent: number): number {
  switch (precision) {
    case "bfloat16":
      return fromBits(code << 16);
    case "float16": {
      const [sign, rest] = [code & 0x8000, code & 0x7fff];
      // Shifted into place it is too small by 2^112, subnormals too; NaN and infinity stay above.
      const isNumber = rest < 0x7c00;
      const value = isNumber
        ? fromBits(rest << 13) * 2 ** 112
        : fromBits((rest << 13) | 0x7f80_0000);
      return sign === 0 ? value : -value;
    }
    case "int8":
      return code * 2 ** exponent;
    case "float32":
      throw new RangeError("float32 weights have no codes");
    default:
      return precision satisfies never;
  }
}

/** The exponent of an int8 row: the smallest with which its largest weight has a code. */
export function exponentOf(weights: ArrayLike<number>): number {
  let largest = 0;
  for (let c = 0; c < weights.length; c++) {
    const size = Math.abs(Math.fround(weights[c]!));
    if (size > largest) largest = size;
  }
  // 127 * 2^e holds all of 2^k .. 127/64 * 2^k where e = k - 6; above, the next one.
  const bits = bitsOf(largest);
  const above = (bits & 0x7f_ffff) > 0x7e_0000 ? 1 : 0;
  return Math.max(-126, Math.min(121, (bits >>> 23) - 127 - 6 + above));
}

/**
 * The code of a float32. `random` is a word of 32 bits: its low bits are the chance to take the
 * neighbour above; undefined rounds to the nearest.
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
      const noise = random === undefined ? 0x7fff + ((bits >>> 16) & 1) : random & 0xffff;
      return ((bits + noise) >>> 16) & 0xffff;
    }
    case "float16":
      return encodeFloat16(value, random);
    case "int8": {
      const scaled = Math.fround(value * 2 ** -exponent);
      const noise = random === undefined ? 0.5 : (random >>> 8) * 2 ** -24;
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
  const size = Math.fround(Math.abs(value));
  // Below the normal numbers steps are as wide as those of the binade above: round there.
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
  const first = row * out.length;
  const exponent = exponents[row] ?? 0;
  for (let c = 0; c < out.length; c++) out[c] = decode(precision, codes[first + c]!, exponent);
}

/** Encodes weights (D) as row `row`, by `rounding` or, without it, to the nearest. */
export function encodeRow(
  to: { precision: Precision; codes: Codes; exponents: Int8Array },
  row: number,
  weights: ArrayLike<number>,
  rounding?: Rounding,
): void {
  const { precision, codes, exponents } = to;
  const dim = weights.length;
  const exponent = precision === "int8" ? exponentOf(weights) : 0;
  if (precision === "int8") exponents[row] = exponent;
  const words = new Uint32Array(4);
  for (let c = 0; c < dim; c++) {
    if (rounding !== undefined && c % 4 === 0) {
      const block = row * Math.ceil(dim / 4) + c / 4;
      const { key, step, purpose } = rounding;
      const high = Math.floor(block / 2 ** 32) >>> 0;
      philox(words, key, [block >>> 0, high, step >>> 0, purpose >>> 0]);
    }
    const random = rounding === undefined ? undefined : words[c % 4]!;
    codes[row * dim + c] = encode(precision, Math.fround(weights[c]!), exponent, random);
  }
}

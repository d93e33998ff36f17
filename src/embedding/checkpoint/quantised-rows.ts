// Quantises rows for checkpoints; training keeps its own precision (Check-N-Run, Eisenman et al.,
// NSDI 2022, section 4.2). Each row has its own range, divided into equal steps:
//
//   q = round((x - bias) / scale), x' = bias + q scale
//
//   8 bits        scale f32 | bias f32 | D codes; the range is from the row's minimum to maximum
//   4, 3, 2 bits  scale f16 | bias f16 | D codes, the lowest bits first, in whole bytes; the range
//                 is narrowed step by step from either end, to the range with the least error
//
// Rows follow one another, then zeros to a multiple of 4 bytes.

import { decode, encode } from "../../kernels/contract/precision.ts";

export type StoredBits = 8 | 4 | 3 | 2;

/** The search for a range: `binsOf` steps in the whole range; it ends at `leftMin` of the range. */
const binsOf = { 4: 45, 3: 25, 2: 25 } as const;
const leftMin = 0.2;

/** Bytes of `rows` rows of `dim` columns, padded. */
export function quantisedBytes(bits: StoredBits, rows: number, dim: number): number {
  return 4 * Math.ceil((rows * rowBytes(bits, dim)) / 4);
}

function rowBytes(bits: StoredBits, dim: number): number {
  return (bits === 8 ? 8 : 4) + Math.ceil((dim * bits) / 8);
}

/** Quantises weights (n,D) to `bits` bits each. */
export function quantiseRows(bits: StoredBits, weights: Float32Array, dim: number): Uint8Array {
  const rows = dim === 0 ? 0 : weights.length / dim;
  const bytes = new Uint8Array(quantisedBytes(bits, rows, dim));
  const view = new DataView(bytes.buffer);
  const levels = 2 ** bits - 1;
  for (let row = 0; row < rows; row++) {
    const own = weights.subarray(row * dim, (row + 1) * dim);
    let at = row * rowBytes(bits, dim);
    const { low, high } = bits === 8 ? rangeOf(own) : narrowed(own, levels, binsOf[bits]);
    let scale = Math.fround((high - low) / levels);
    let bias = Math.fround(low);
    if (bits === 8) {
      view.setFloat32(at, scale, true);
      view.setFloat32(at + 4, bias, true);
      at += 8;
    } else {
      const codes = [halfOf(scale), halfOf(bias)] as const;
      [scale, bias] = [decode("float16", codes[0], 0), decode("float16", codes[1], 0)];
      view.setUint16(at, codes[0], true);
      view.setUint16(at + 2, codes[1], true);
      at += 4;
    }
    for (let c = 0; c < dim; c++) {
      const code = codeOf(own[c] ?? 0, bias, scale, levels);
      const bit = c * bits;
      const place = at + (bit >> 3);
      const word = code << (bit & 7);
      bytes[place] = (bytes[place] ?? 0) | word;
      if (word > 255) bytes[place + 1] = (bytes[place + 1] ?? 0) | (word >> 8);
    }
  }
  return bytes;
}

/** Decodes `rows` rows into weights (n,D). */
export function dequantiseRows(
  bits: StoredBits,
  bytes: Uint8Array,
  rows: number,
  dim: number,
): Float32Array {
  const weights = new Float32Array(rows * dim);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const mask = 2 ** bits - 1;
  for (let row = 0; row < rows; row++) {
    const start = row * rowBytes(bits, dim);
    const isWide = bits === 8;
    const half = (at: number) => decode("float16", view.getUint16(at, true), 0);
    const scale = isWide ? view.getFloat32(start, true) : half(start);
    const bias = isWide ? view.getFloat32(start + 4, true) : half(start + 2);
    const first = start + (isWide ? 8 : 4);
    for (let c = 0; c < dim; c++) {
      const bit = c * bits;
      const place = first + (bit >> 3);
      const word = (bytes[place] ?? 0) | ((bytes[place + 1] ?? 0) << 8);
      weights[row * dim + c] = bias + ((word >> (bit & 7)) & mask) * scale;
    }
  }
  return weights;
}

interface Range {
  readonly low: number;
  readonly high: number;
}

function rangeOf(row: Float32Array): Range {
  let [low, high] = [row[0] ?? 0, row[0] ?? 0];
  for (const value of row) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return { low, high };
}

/** Narrows the whole range, one step at a time, to the range with the smallest error. */
function narrowed(row: Float32Array, levels: number, bins: number): Range {
  let { low, high } = rangeOf(row);
  const step = (high - low) / bins;
  if (step === 0) return { low, high };
  let best = { low, high };
  let least = errorOf(row, low, high, levels);
  const end = leftMin * bins * step;
  while (high - low - step > end) {
    const [fromLow, fromHigh] = [
      errorOf(row, low + step, high, levels),
      errorOf(row, low, high - step, levels),
    ];
    if (fromLow < fromHigh) low += step;
    else high -= step;
    const error = Math.min(fromLow, fromHigh);
    if (error < least) [least, best] = [error, { low, high }];
  }
  return best;
}

/** Sum of squared quantisation errors of a row with the range `low`..`high`. */
function errorOf(row: Float32Array, low: number, high: number, levels: number): number {
  const scale = (high - low) / levels;
  let sum = 0;
  for (let c = 0; c < row.length; c++) {
    const value = row[c] ?? 0;
    let code = Math.round((value - low) / scale);
    if (code < 0) code = 0;
    else if (code > levels) code = levels;
    const lost = value - low - code * scale;
    sum += lost * lost;
  }
  return sum;
}

function codeOf(value: number, bias: number, scale: number, levels: number): number {
  if (scale === 0) return 0;
  return Math.max(0, Math.min(levels, Math.round((value - bias) / scale)));
}

/** Encodes a float16. Values beyond the largest finite float16 are clamped to it. */
function halfOf(value: number): number {
  return encode("float16", Math.max(-65_504, Math.min(65_504, value)), 0, undefined);
}

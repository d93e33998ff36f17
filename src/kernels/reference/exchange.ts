// The reference kernels of the exchange of pooled vectors, in plain loops: fold a table's tiles,
// divide by bag lengths, expand distinct lists, pack and unpack.

import { type Kernels, type PackedAt, quantumColumns, type Tensor } from "../contract/kernels.ts";
import {
  bitsOf,
  decode,
  encode,
  exponentOf,
  isFloat8,
  packedBytes,
  type WirePrecision,
} from "../contract/precision.ts";
import { decodeFloat8, encodeFloat8 } from "./float8.ts";
import { valuesOf } from "./memory.ts";
import type { Round } from "./round.ts";

/** The kernels of the exchange in the precision of `round`. */
export function createExchange(round: Round) {
  return {
    foldPooled(out, outFirst, parts, blocks, columns, lengths, precision = "float32", scale = 1) {
      /** The node of `count` blocks from block `first` on, for sample b. */
      const nodeOf = (b: number, first: number, count: number): number[] => {
        const inside = parts.filter(
          ({ tree }) => tree.first >= first && tree.first < first + count,
        );
        const part = inside[0];
        if (part === undefined) return new Array<number>(columns).fill(0);
        if (part.tree.count === count) {
          const [from, at] = rowOf(part.from, b, part.first);
          return throughCodes(Array.from(from.subarray(at, at + columns)), precision, scale);
        }
        const left = nodeOf(b, first, count / 2);
        const right = nodeOf(b, first + count / 2, count / 2);
        const sums = left.map((value, c) => round(value + right[c]!));
        return throughCodes(sums, precision, scale);
      };
      for (let b = 0; b < out.shape[0]!; b++) {
        const length = lengths?.[b] ?? 0;
        const [to, at] = rowOf(out, b, outFirst);
        const sums = nodeOf(b, 0, blocks);
        to.set(length > 0 ? sums.map((sum) => round(sum / length)) : sums, at);
      }
    },

    shareColumns(out, outFirst, from, fromFirst, columns, lengths) {
      lengths.forEach((length, b) => {
        const [to, at] = rowOf(out, b, outFirst);
        const [source, first] = rowOf(from, b, fromFirst);
        for (let c = 0; c < columns; c++) {
          to[at + c] = length > 0 ? round(source[first + c]! / length) : 0;
        }
      });
    },

    expandColumns(out, outFirst, from, fromFirst, columns, inverse, used) {
      inverse.forEach((u, b) => {
        const [to, at] = rowOf(out, b, outFirst);
        const [source, first] = rowOf(from, u, fromFirst);
        const count = used?.[u] ?? columns;
        for (let c = 0; c < columns; c++) to[at + c] = c < count ? source[first + c]! : 0;
      });
    },

    dExpandColumns(dFrom, fromFirst, dOut, outFirst, columns, inverse, used) {
      for (let u = 0; u < dFrom.shape[0]!; u++) {
        const [to, at] = rowOf(dFrom, u, fromFirst);
        to.fill(0, at, at + columns);
      }
      inverse.forEach((u, b) => {
        const [to, at] = rowOf(dFrom, u, fromFirst);
        const [source, first] = rowOf(dOut, b, outFirst);
        const count = used?.[u] ?? columns;
        for (let c = 0; c < count; c++) to[at + c] = round(to[at + c]! + source[first + c]!);
      });
    },

    placeColumns(out, outFirst, from, fromFirst, columns, places) {
      places.forEach((place, i) => {
        const [to, at] = rowOf(out, place, outFirst);
        const [source, first] = rowOf(from, i, fromFirst);
        to.set(source.subarray(first, first + columns), at);
      });
    },

    packColumns(to, from, fromFirst, columns, precision, scale = 1) {
      const packed = packedAt(to, from.shape[0]!, columns, precision, scale);
      for (let b = 0; b < from.shape[0]!; b++) {
        const [source, at] = rowOf(from, b, fromFirst);
        packed.write(b, Array.from(source.subarray(at, at + columns)));
      }
    },

    unpackColumns(out, outFirst, from, columns, precision, scale = 1) {
      const packed = packedAt(from, out.shape[0]!, columns, precision, scale);
      for (let b = 0; b < out.shape[0]!; b++) {
        const [to, at] = rowOf(out, b, outFirst);
        to.set(packed.read(b), at);
      }
    },

    selectLargest({ indices, codes }, residual, sum) {
      const [left, more] = [valuesOf(residual), valuesOf(sum)];
      for (let i = 0; i < left.length; i++) left[i] = round(left[i]! + more[i]!);
      const sizes = Uint32Array.from(left, sizeBits);
      const least = sizes.toSorted()[left.length - indices.length]!;
      const larger = sizes.reduce((count, size) => count + (size > least ? 1 : 0), 0);
      let [at, equal] = [0, indices.length - larger];
      sizes.forEach((size, i) => {
        if (size < least || (size === least && equal-- <= 0)) return;
        const code = encode("bfloat16", left[i]!, 0, undefined);
        left[i] = round(left[i]! - decode("bfloat16", code, 0));
        indices[at] = i;
        codes[at++] = code;
      });
    },

    addSelected(out, { indices, codes }) {
      const values = valuesOf(out);
      indices.forEach((index, i) => {
        values[index] = round(values[index]! + decode("bfloat16", codes[i]!, 0));
      });
    },
  } satisfies Partial<Kernels>;
}

/** The bits of |value|, which have the order of sizes; NaN is the largest. */
function sizeBits(value: number): number {
  return Number.isNaN(value) ? 0x7fc0_0000 : bitsOf(Math.abs(value));
}

/** The values of a tensor (B, ·), and the index of column `first` of sample b. */
function rowOf(t: Tensor, b: number, first: number) {
  const values = valuesOf(t);
  return [values, b * (values.length / t.shape[0]!) + first] as const;
}

/** The values after packing and unpacking. */
function throughCodes(values: number[], precision: WirePrecision, scale: number): number[] {
  if (precision === "float32") return values;
  const buffer = new ArrayBuffer(packedBytes(1, values.length, precision));
  const packed = packedAt({ buffer, byteOffset: 0 }, 1, values.length, precision, scale);
  packed.write(0, values);
  return packed.read(0);
}

/** Packed columns (B,columns), by sample. */
function packedAt(
  at: PackedAt,
  samples: number,
  columns: number,
  precision: WirePrecision,
  scale: number,
) {
  const { buffer, byteOffset } = at;
  const count = samples * columns;
  if (precision === "float32") {
    const floats = new Float32Array(buffer, byteOffset, count);
    return {
      write: (b: number, values: number[]) => floats.set(values, b * columns),
      read: (b: number) => [...floats.subarray(b * columns, (b + 1) * columns)],
    };
  }
  if (isFloat8(precision)) {
    const codes = new Uint8Array(buffer, byteOffset, count);
    return {
      write(b: number, values: number[]): void {
        const scaled = values.map((value) => Math.fround(value * scale));
        codes.set(
          scaled.map((value) => encodeFloat8(precision, value)),
          b * columns,
        );
      },
      read: (b: number): number[] =>
        Array.from(codes.subarray(b * columns, (b + 1) * columns), (code) => {
          return decodeFloat8(precision, code) / scale;
        }),
    };
  }
  const factor = precision === "float16" ? scale : 1;
  const isInt8 = precision === "int8";
  const quanta = isInt8 ? Math.ceil(columns / quantumColumns) : 0;
  const codes = isInt8
    ? new Int8Array(buffer, byteOffset, count)
    : new Uint16Array(buffer, byteOffset, count);
  const exponents = new Int8Array(buffer, byteOffset + (isInt8 ? count : 0), samples * quanta);
  return {
    write(b: number, values: number[]): void {
      // In int8, all non-finite values get one code (-128), and are ignored for the exponent.
      const numbers = isInt8 ? values.map((v) => (Number.isFinite(v) ? v : Number.NaN)) : values;
      for (let q = 0; q < quanta; q++) {
        const quantum = numbers.slice(q * quantumColumns, (q + 1) * quantumColumns);
        exponents[b * quanta + q] = exponentOf(quantum);
      }
      numbers.forEach((value, c) => {
        const exponent = exponents[b * quanta + Math.floor(c / quantumColumns)] ?? 0;
        codes[b * columns + c] = encode(
          precision,
          Math.fround(value * factor),
          exponent,
          undefined,
        );
      });
    },
    read: (b: number): number[] =>
      Array.from(codes.subarray(b * columns, (b + 1) * columns), (code, c) => {
        const exponent = exponents[b * quanta + Math.floor(c / quantumColumns)] ?? 0;
        return isInt8 && code === -128 ? Number.NaN : decode(precision, code, exponent) / factor;
      }),
  };
}

// The part of a checkpoint with the initialised rows of one table. Little-endian:
//
//   "OSRW" | version and precision u32 | dim u32 | state width u32
//   then chunks:  n u32 | rows i32 * n | weights | state f32 * n*width
//   the last chunk has n = 0
//
// Weights are n*dim of the table's precision: f32, or the codes of
// src/kernels/contract/precision.ts, for int8 after the exponents of the rows' quanta; then zeros
// to a multiple of 4 bytes. Where the third byte of the version is 8, 4, 3 or 2, float32 weights
// are stored in that many bits (quantised-rows.ts).
//
// A part belongs to a logical shard, never to a device: any number of devices can load it.

import { CheckpointCorruptError } from "../../errors/errors.ts";
import { quantumColumns } from "../../kernels/contract/kernels.ts";
import {
  createCodes,
  createExponents,
  decodeRow,
  encodeRow,
  type Precision,
  weightBytes,
} from "../../kernels/contract/precision.ts";
import type { RowRecords } from "../rows/row-records.ts";
import { piecesOf } from "./pieces.ts";
import { dequantiseRows, quantisedBytes, quantiseRows, type StoredBits } from "./quantised-rows.ts";

const magic = 0x5752_534f;
const version = 1;
/** A chunk with more rows is corrupt, and must not exhaust memory; writers put 4096 in a chunk. */
const chunkRowsMax = 2 ** 16;
/** Stored as an index in the second byte of the version. Never reorder. */
const precisions: readonly Precision[] = ["float32", "float16", "bfloat16", "int8"];

const storedBits: readonly StoredBits[] = [8, 4, 3, 2];

/**
 * Returns a function that stores the weights of parts in fewer bits. It takes the pieces of
 * `encodeRows` of one part, in order, and returns each one in its stored form. Pieces without
 * float32 weights are returned unchanged.
 */
export function createPartQuantiser(bits: StoredBits): (piece: Uint8Array) => Uint8Array {
  let at = -1;
  let dim: number | undefined;
  return (piece) => {
    if (at < 0) {
      at = 0;
      const words = new Uint32Array(piece.slice().buffer);
      if (words[0] !== magic || words[1] !== version) return piece;
      dim = words[2] ?? 0;
      words[1] = version | (bits << 16);
      return new Uint8Array(words.buffer);
    }
    // The pieces of a chunk: its number of rows, rows, weights, state.
    const isWeights = at++ % 4 === 2;
    if (dim === undefined || !isWeights) return piece;
    const floats = new Float32Array(piece.slice().buffer);
    return quantiseRows(bits, floats, dim);
  };
}

/** Encodes records as a part, chunk by chunk. `width`: floats of state per row. */
export async function* encodeRows(
  dim: number,
  width: number,
  records: AsyncIterable<RowRecords> | Iterable<RowRecords>,
  precision: Precision = "float32",
): AsyncGenerator<Uint8Array> {
  const kind = version | (precisions.indexOf(precision) << 8);
  yield new Uint8Array(Uint32Array.of(magic, kind, dim, width).buffer);
  for await (const chunk of records) {
    if (chunk.rows.length === 0) continue; // A count of 0 ends the part.
    yield new Uint8Array(Uint32Array.of(chunk.rows.length).buffer);
    yield bytesOf(chunk.rows);
    yield precision === "float32" ? bytesOf(chunk.weights) : pack(chunk, dim, precision);
    yield bytesOf(chunk.state);
  }
  yield new Uint8Array(4);
}

/**
 * Decodes the rows of a part from its bytes, whole or in pieces. Rows from pieces are valid until
 * the next chunk. `rows`: number of rows of the table. `leftOut`: number of floats at the beginning
 * of a row's state that the part leaves out; they are 0. `path` is for the error only.
 * @throws CheckpointCorruptError where the bytes are not a part with these dimensions
 */
export function* decodeRows(
  part: Uint8Array | Iterable<Uint8Array>,
  expect: { dim: number; width: number; path: string; rows?: number; leftOut?: number },
): Generator<RowRecords> {
  const { dim, width, path, rows: rowsMax = 2 ** 31, leftOut = 0 } = expect;
  const storedWidth = width - leftOut;
  const pieces = piecesOf(part instanceof Uint8Array ? [part] : part);
  const take = (count: number) => {
    const bytes = pieces.take(count);
    if (bytes === undefined) throw new CheckpointCorruptError(path, "it ends too early");
    return bytes;
  };
  try {
    const header = wordsOf(take(16));
    const precision = precisions[((header[1] ?? 0) >>> 8) & 0xff];
    const bits = storedBits.find((one) => one === (header[1] ?? 0) >>> 16);
    const wanted = [magic, version | ((header[1] ?? 0) & ~0xff), dim, storedWidth];
    if (precision === undefined || header.some((word, i) => word !== wanted[i])) {
      throw new CheckpointCorruptError(path, `its header is [${header}], expected [${wanted}]`);
    }
    let after = -1;
    for (;;) {
      const [n = 0] = wordsOf(take(4));
      if (n === 0) break;
      if (n > chunkRowsMax) throw new CheckpointCorruptError(path, `it has a chunk of ${n} rows`);
      const weightsBytes =
        bits === undefined ? packedBytes(precision, n, dim) : quantisedBytes(bits, n, dim);
      const { buffer, byteOffset: start } = take(4 * n * (1 + storedWidth) + weightsBytes);
      const rows = new Int32Array(buffer, start, n);
      for (const row of rows) {
        if (row <= after) throw new CheckpointCorruptError(path, `row ${row} follows row ${after}`);
        if (row >= rowsMax) {
          throw new CheckpointCorruptError(path, `it has row ${row} of a table of ${rowsMax} rows`);
        }
        after = row;
      }
      const packed = { buffer, byteOffset: start + 4 * n };
      const weights =
        bits === undefined
          ? unpack(packed, precision, n, dim)
          : dequantiseRows(bits, new Uint8Array(buffer, start + 4 * n, weightsBytes), n, dim);
      const own = new Float32Array(buffer, start + 4 * n + weightsBytes, n * storedWidth);
      yield { rows, weights, state: leftOut === 0 ? own : widened(own, n, width) };
    }
    if (!pieces.isAtEnd()) throw new CheckpointCorruptError(path, "it has bytes after its end");
  } finally {
    pieces.close();
  }
}

/** (n, width): state whose first floats of each row are zeros, and whose last ones are stored. */
function widened(stored: Float32Array, n: number, width: number): Float32Array {
  const own = stored.length / n;
  const state = new Float32Array(n * width);
  for (let i = 0; i < n; i++) {
    state.set(stored.subarray(i * own, (i + 1) * own), (i + 1) * width - own);
  }
  return state;
}

function wordsOf({ buffer, byteOffset, byteLength }: Uint8Array): Uint32Array {
  return new Uint32Array(buffer, byteOffset, byteLength / 4);
}

function bytesOf(array: Int32Array | Float32Array): Uint8Array {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}

function packedBytes(precision: Precision, rows: number, dim: number): number {
  const exponents = precision === "int8" ? rows * Math.ceil(dim / quantumColumns) : 0;
  return 4 * Math.ceil((exponents + rows * dim * weightBytes(precision)) / 4);
}

/** Encodes weights exactly: weights decoded from codes become the same codes again. */
function pack(chunk: RowRecords, dim: number, precision: Precision): Uint8Array {
  const count = chunk.rows.length;
  const exponents = createExponents(precision, count, dim);
  const codes = createCodes(precision, count * dim);
  for (let i = 0; i < count; i++) {
    const weights = chunk.weights.subarray(i * dim, (i + 1) * dim);
    encodeRow({ precision, codes, exponents }, i, weights);
  }
  const bytes = new Uint8Array(packedBytes(precision, count, dim));
  bytes.set(new Uint8Array(exponents.buffer));
  bytes.set(new Uint8Array(codes.buffer), exponents.length);
  return bytes;
}

/** Float32 weights (n,D); a view where the part stores float32. */
function unpack(
  { buffer, byteOffset }: { buffer: ArrayBufferLike; byteOffset: number },
  precision: Precision,
  count: number,
  dim: number,
): Float32Array {
  if (precision === "float32") return new Float32Array(buffer, byteOffset, count * dim);
  const isByte = precision === "int8";
  const quanta = isByte ? count * Math.ceil(dim / quantumColumns) : 0;
  const exponents = new Int8Array(buffer, byteOffset, quanta);
  const codes = isByte
    ? new Int8Array(buffer, byteOffset + quanta, count * dim)
    : new Uint16Array(buffer, byteOffset, count * dim);
  const weights = new Float32Array(count * dim);
  for (let i = 0; i < count; i++) {
    decodeRow(weights.subarray(i * dim, (i + 1) * dim), { precision, codes, exponents }, i);
  }
  return weights;
}

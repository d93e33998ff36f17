// The part of a checkpoint that holds the born rows of one table. Little-endian:
//
//   "OSRW" | version u32 | dim u32 | state width u32
//   then chunks:  n u32 | rows i32 * n | weights f32 * n*dim | state f32 * n*width
//   the last chunk has n = 0
//
// A part belongs to a logical shard, never to a device: any number of devices can load it.

import { CheckpointCorruptError } from "../errors.ts";
import type { RowRecords } from "./row-store.ts";

const magic = 0x5752_534f;
const version = 1;

/** The bytes of a part, chunk by chunk. */
export function* encodeRows(
  dim: number,
  width: number,
  records: Iterable<RowRecords>,
): Generator<Uint8Array> {
  yield new Uint8Array(Uint32Array.of(magic, version, dim, width).buffer);
  for (const chunk of records) {
    yield new Uint8Array(Uint32Array.of(chunk.rows.length).buffer);
    yield bytesOf(chunk.rows);
    yield bytesOf(chunk.weights);
    yield bytesOf(chunk.state);
  }
  yield new Uint8Array(4);
}

/**
 * The rows of a part. `path` is for the error only.
 * @throws CheckpointCorruptError where the bytes are not such a part
 */
export function* decodeRows(
  bytes: Uint8Array,
  expect: { dim: number; width: number; path: string },
): Generator<RowRecords> {
  const { dim, width, path } = expect;
  const aligned = bytes.byteOffset % 4 === 0 ? bytes : new Uint8Array(bytes); // A copy.
  const view = new DataView(aligned.buffer, aligned.byteOffset, aligned.byteLength);
  const need = (at: number, count: number) => {
    if (at + count > view.byteLength) throw new CheckpointCorruptError(path, "it ends too early");
  };
  need(0, 16);
  const header = [0, 4, 8, 12].map((at) => view.getUint32(at, true));
  const wanted = [magic, version, dim, width];
  if (header.some((word, i) => word !== wanted[i])) {
    throw new CheckpointCorruptError(path, `its header is [${header}], expected [${wanted}]`);
  }
  let at = 16;
  let after = -1;
  for (;;) {
    need(at, 4);
    const n = view.getUint32(at, true);
    at += 4;
    if (n === 0) break;
    need(at, 4 * n * (1 + dim + width));
    const start = aligned.byteOffset + at;
    const rows = new Int32Array(aligned.buffer, start, n);
    for (const row of rows) {
      if (row <= after) throw new CheckpointCorruptError(path, `row ${row} follows row ${after}`);
      after = row;
    }
    const weights = new Float32Array(aligned.buffer, start + 4 * n, n * dim);
    const state = new Float32Array(aligned.buffer, start + 4 * n * (1 + dim), n * width);
    yield { rows, weights, state };
    at += 4 * n * (1 + dim + width);
  }
  if (at !== view.byteLength) throw new CheckpointCorruptError(path, "it goes on after its end");
}

function bytesOf(array: Int32Array | Float32Array): Uint8Array {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}

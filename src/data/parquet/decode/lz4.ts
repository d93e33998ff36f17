// Decompresses LZ4 pages, in both of Parquet's framings.
// https://github.com/apache/parquet-format/blob/master/Compression.md
//
//   LZ4_RAW   a block
//   LZ4       Hadoop's framing, repeated until the end, big-endian:
//             unpacked bytes, u32 | packed bytes, u32 | block
//             other writers store a plain block under this name

import { CorruptFile } from "../../tables/damage.ts";
import { unpackLz4Block } from "../../tables/lz4-block.ts";

const what = "a page's LZ4";

/** Decompresses a block into `out`. @throws CorruptFile if it does not fill `out` exactly */
export function unpackLz4Raw(out: Uint8Array, packed: Uint8Array): void {
  const done = unpackLz4Block(packed, out, 0, what);
  if (done !== out.length)
    throw new CorruptFile(`${what} has ${done} bytes, and not ${out.length}`);
}

/**
 * Decompresses Hadoop's pieces or a plain block into `out`. @throws CorruptFile if the bytes are
 * neither, or do not fill `out` exactly
 */
export function unpackLz4Hadoop(out: Uint8Array, packed: Uint8Array): void {
  try {
    if (unpackPieces(out, packed) === out.length) return;
  } catch (error) {
    if (!(error instanceof CorruptFile)) throw error;
  }
  unpackLz4Raw(out, packed);
}

/**
 * Decompresses Hadoop's pieces. Returns the number of bytes written; undefined if the bytes are not
 * in this framing.
 */
function unpackPieces(out: Uint8Array, packed: Uint8Array): number | undefined {
  const view = new DataView(packed.buffer, packed.byteOffset, packed.length);
  let [at, done] = [0, 0];
  while (at < packed.length) {
    if (packed.length - at < 8) return undefined;
    const [size, length] = [view.getUint32(at), view.getUint32(at + 4)];
    at += 8;
    if (length > packed.length - at || size > out.length - done) return undefined;
    // The blocks are independent: a piece copies only from itself.
    const piece = out.subarray(done, done + size);
    if (unpackLz4Block(packed.subarray(at, at + length), piece, 0, what) !== size) return undefined;
    at += length;
    done += size;
  }
  return done;
}

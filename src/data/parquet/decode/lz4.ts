// Unpacks pages of LZ4, in both forms that Parquet has.
// https://github.com/apache/parquet-format/blob/master/Compression.md
//
//   LZ4_RAW   a block
//   LZ4       what Hadoop writes, as often as needed, in big-endian:
//             unpacked bytes, u32 | packed bytes, u32 | block
//             other writers put a block alone under this name

import { Damage } from "../../tables/damage.ts";
import { unpackLz4Block } from "../../tables/lz4-block.ts";

const what = "a page's LZ4";

/** Fills `out` with what a block unpacks to. @throws Damage where that is more or less */
export function unpackLz4Raw(out: Uint8Array, packed: Uint8Array): void {
  const done = unpackLz4Block(packed, out, 0, what);
  if (done !== out.length) throw new Damage(`${what} has ${done} bytes, and not ${out.length}`);
}

/** Fills `out`. @throws Damage where the bytes are of neither form, or unpack to more or less */
export function unpackLz4Hadoop(out: Uint8Array, packed: Uint8Array): void {
  try {
    if (unpackPieces(out, packed) === out.length) return;
  } catch (error) {
    if (!(error instanceof Damage)) throw error;
  }
  unpackLz4Raw(out, packed);
}

/** Unpacks the pieces of Hadoop. Returns the bytes; undefined where the pieces do not fit. */
function unpackPieces(out: Uint8Array, packed: Uint8Array): number | undefined {
  const view = new DataView(packed.buffer, packed.byteOffset, packed.length);
  let [at, done] = [0, 0];
  while (at < packed.length) {
    if (packed.length - at < 8) return undefined;
    const [size, length] = [view.getUint32(at), view.getUint32(at + 4)];
    at += 8;
    if (length > packed.length - at || size > out.length - done) return undefined;
    // A piece copies from itself alone.
    const piece = out.subarray(done, done + size);
    if (unpackLz4Block(packed.subarray(at, at + length), piece, 0, what) !== size) return undefined;
    at += length;
    done += size;
  }
  return done;
}

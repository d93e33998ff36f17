// Decompresses LZ4 frames, the form in which Arrow compresses its buffers. The blocks of a frame
// may copy from earlier blocks, which a decompressor of single blocks does not support.
// https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md
//
//   frame   04 22 4d 18 | flags | block size | [bytes, 8] | [dictionary, 4] | check | block … | 0
//   block   bytes (4; highest bit set: not compressed) | bytes | [checksum, 4]

import { CorruptFile } from "../tables/damage.ts";
import { unpackLz4Block } from "../tables/lz4-block.ts";

const magic = 0x184d_2204;
const frame = "a buffer's LZ4 frame";

/** Decompresses the frame into `out`. @throws CorruptFile if it does not fill `out` exactly */
export function unpackLz4(bytes: Uint8Array, out: Uint8Array): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < 7 || view.getUint32(0, true) !== magic) throw broken("has no head");
  const flags = bytes[4] ?? 0;
  if (flags >> 6 !== 1) throw broken(`is of version ${flags >> 6}`);
  if ((flags & 1) !== 0) throw broken("asks for a dictionary");
  const hasChecksums = (flags & 0x10) !== 0;
  let at = 7 + ((flags & 8) !== 0 ? 8 : 0);
  let done = 0;
  for (;;) {
    if (at + 4 > bytes.length) throw broken("ends before its last block");
    const head = view.getUint32(at, true);
    if (head === 0) break;
    const [start, end] = [at + 4, at + 4 + (head & 0x7fff_ffff)];
    if (end > bytes.length) throw broken("ends within a block");
    if (head >>> 31 === 1) {
      if (end - start > out.length - done) throw broken(`has more than ${out.length} bytes`);
      out.set(bytes.subarray(start, end), done);
      done += end - start;
    } else done = unpackLz4Block(bytes.subarray(start, end), out, done, frame);
    at = end + (hasChecksums ? 4 : 0);
  }
  if (done !== out.length) throw broken(`has ${done} bytes, and not ${out.length}`);
}

function broken(what: string): CorruptFile {
  return new CorruptFile(`${frame} ${what}`);
}

// Unpacks frames of LZ4, as Arrow packs its buffers: blocks that may copy from the blocks before
// them, which unpackers of single blocks cannot.
// https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md
//
//   frame   04 22 4d 18 | flags | block size | [bytes, 8] | [dictionary, 4] | check | block … | 0
//   block   bytes (4), the highest bit: not packed | bytes | [checksum, 4]

import { Damage } from "../tables/damage.ts";

const magic = 0x184d_2204;

/** Fills `out` with what the frame unpacks to. @throws Damage where that is more or less */
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
    } else done = unpackBlock(bytes, start, end, out, done);
    at = end + (hasChecksums ? 4 : 0);
  }
  if (done !== out.length) throw broken(`has ${done} bytes, and not ${out.length}`);
}

/** Unpacks a block behind the `first` bytes of `out`. Returns the bytes that are there then. */
function unpackBlock(
  bytes: Uint8Array,
  start: number,
  end: number,
  out: Uint8Array,
  first: number,
): number {
  let [at, done] = [start, first];
  /** A length goes on in bytes of 255. */
  const lengthOf = (nibble: number) => {
    let length = nibble;
    if (nibble < 15) return length;
    for (let more = 255; more === 255; length += more) {
      if (at >= end) throw broken("ends within a length");
      more = bytes[at++] ?? 0;
    }
    return length;
  };
  while (at < end) {
    const token = bytes[at++] ?? 0;
    const literals = lengthOf(token >> 4);
    if (literals > end - at) throw broken("ends within its literals");
    if (literals > out.length - done) throw broken(`has more than ${out.length} bytes`);
    if (literals > 16) out.set(bytes.subarray(at, at + literals), done);
    else for (let i = 0; i < literals; i++) out[done + i] = bytes[at + i] ?? 0;
    at += literals;
    done += literals;
    if (at === end) return done; // The last sequence has literals alone.
    if (at + 2 > end) throw broken("ends within a copy");
    const back = (bytes[at] ?? 0) | ((bytes[at + 1] ?? 0) << 8);
    at += 2;
    const length = 4 + lengthOf(token & 15);
    if (back === 0 || back > done) throw broken(`copies from ${back} bytes before`);
    if (length > out.length - done) throw broken(`has more than ${out.length} bytes`);
    if (back >= length) out.copyWithin(done, done - back, done - back + length);
    else for (let i = 0; i < length; i++) out[done + i] = out[done - back + i] ?? 0;
    done += length;
  }
  return done;
}

function broken(what: string): Damage {
  return new Damage(`a buffer's LZ4 frame ${what}`);
}

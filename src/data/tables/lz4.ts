// Decompresses LZ4: the frames of Arrow's buffers, and both framings of Parquet's pages. The input
// is untrusted: every length is checked against the input and the output.
// https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md
// https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md
// https://github.com/apache/parquet-format/blob/master/Compression.md
//
//   frame    04 22 4d 18 | flags | block size | [bytes, 8] | [dictionary, 4] | check | part … | 0
//   part     bytes (4; highest bit set: not compressed) | block | [checksum, 4]
//   LZ4_RAW  a block
//   LZ4      Hadoop's framing, repeated until the end, big-endian:
//            unpacked bytes, u32 | packed bytes, u32 | block
//            other writers store a plain block under this name

import { CorruptFile } from "./damage.ts";

const frameMagic = 0x184d_2204;
/** The containers of blocks, for messages. */
const [frame, page] = ["a buffer's LZ4 frame", "a page's LZ4"];

/** Decompresses a frame into `out`. @throws CorruptFile if it does not fill `out` exactly */
export function unpackLz4Frame(out: Uint8Array, packed: Uint8Array): void {
  const view = new DataView(packed.buffer, packed.byteOffset, packed.byteLength);
  if (packed.length < 7 || view.getUint32(0, true) !== frameMagic) throw broken(frame, "no head");
  const flags = packed[4] ?? 0;
  if (flags >> 6 !== 1) throw broken(frame, `the version ${flags >> 6}, and Osiris reads 1`);
  if ((flags & 1) !== 0) throw broken(frame, "a dictionary, which Osiris does not read");
  const hasChecksums = (flags & 0x10) !== 0;
  let at = 7 + ((flags & 8) !== 0 ? 8 : 0);
  let done = 0;
  for (;;) {
    if (at + 4 > packed.length) throw broken(frame, "no last block");
    const head = view.getUint32(at, true);
    if (head === 0) break;
    const [start, end] = [at + 4, at + 4 + (head & 0x7fff_ffff)];
    if (end > packed.length) throw broken(frame, "an end within a block");
    const block = packed.subarray(start, end);
    if (head >>> 31 === 1) {
      if (block.length > out.length - done) throw tooMany(frame, out);
      out.set(block, done);
      done += block.length;
    } else done = unpackBlock(block, out, done, frame); // May copy from the blocks before it.
    at = end + (hasChecksums ? 4 : 0);
  }
  checkFilled(out, done, frame);
}

/** Decompresses a block into `out`. @throws CorruptFile if it does not fill `out` exactly */
export function unpackLz4Raw(out: Uint8Array, packed: Uint8Array): void {
  checkFilled(out, unpackBlock(packed, out, 0, page), page);
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
    if (unpackBlock(packed.subarray(at, at + length), piece, 0, page) !== size) return undefined;
    at += length;
    done += size;
  }
  return done;
}

/**
 * Decompresses a block into `out`, after its `first` bytes, from which the block may copy. Returns
 * the number of bytes in `out`. @throws CorruptFile
 */
function unpackBlock(bytes: Uint8Array, out: Uint8Array, first: number, of: string): number {
  const end = bytes.length;
  let [at, done] = [0, first];
  /** Reads the rest of a length: bytes of 255 continue it. */
  const lengthOf = (nibble: number) => {
    let length = nibble;
    if (nibble < 15) return length;
    for (let more = 255; more === 255; length += more) {
      if (at >= end) throw broken(of, "an end within a length");
      more = bytes[at++] ?? 0;
    }
    return length;
  };
  while (at < end) {
    const token = bytes[at++] ?? 0;
    const literals = lengthOf(token >> 4);
    if (literals > end - at) throw broken(of, "an end within its literals");
    if (literals > out.length - done) throw tooMany(of, out);
    if (literals > 16) out.set(bytes.subarray(at, at + literals), done);
    else for (let i = 0; i < literals; i++) out[done + i] = bytes[at + i] ?? 0;
    at += literals;
    done += literals;
    if (at === end) return done; // The last sequence has only literals.
    if (at + 2 > end) throw broken(of, "an end within a copy");
    const back = (bytes[at] ?? 0) | ((bytes[at + 1] ?? 0) << 8);
    at += 2;
    const length = 4 + lengthOf(token & 15);
    if (back === 0 || back > done) throw broken(of, `a copy from ${back} bytes before ${done}`);
    if (length > out.length - done) throw tooMany(of, out);
    if (back >= length) out.copyWithin(done, done - back, done - back + length);
    else for (let i = 0; i < length; i++) out[done + i] = out[done - back + i] ?? 0;
    done += length;
  }
  return done;
}

function checkFilled(out: Uint8Array, done: number, of: string): void {
  if (done !== out.length) throw broken(of, `${done} bytes, and not ${out.length}`);
}

function tooMany(of: string, { length }: Uint8Array): CorruptFile {
  return broken(of, `more than ${length} bytes`);
}

function broken(of: string, what: string): CorruptFile {
  return new CorruptFile(`${of} has ${what}`);
}

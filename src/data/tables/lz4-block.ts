// Decompresses LZ4 blocks. The input is untrusted: every length is checked against the input and
// the output. https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md

import { CorruptFile } from "./damage.ts";

/**
 * Decompresses a block into `out`, after its `first` bytes, from which the block may copy. Returns
 * the number of bytes in `out`. `what` names the container, for messages. @throws CorruptFile
 */
export function unpackLz4Block(
  bytes: Uint8Array,
  out: Uint8Array,
  first: number,
  what: string,
): number {
  const broken = (how: string) => new CorruptFile(`${what} ${how}`);
  const end = bytes.length;
  let [at, done] = [0, first];
  /** Reads the rest of a length: bytes of 255 continue it. */
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
    if (at === end) return done; // The last sequence has only literals.
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

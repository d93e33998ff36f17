// MurmurHash3, x86, 32 bits (Austin Appleby, public domain): how text becomes a row of a table.

/** The hash of a text whose every character is one byte (latin1), as an unsigned 32-bit integer. */
export function murmurHash3(text: string, seed: number): number {
  const blocks = text.length & ~3;
  let hash = seed | 0;
  for (let i = 0; i < blocks; i += 4) {
    hash ^= scramble(
      text.charCodeAt(i) |
        (text.charCodeAt(i + 1) << 8) |
        (text.charCodeAt(i + 2) << 16) |
        (text.charCodeAt(i + 3) << 24),
    );
    hash = (Math.imul((hash << 13) | (hash >>> 19), 5) + 0xe654_6b64) | 0;
  }
  let rest = 0;
  for (let i = text.length - 1; i >= blocks; i--) rest = (rest << 8) | text.charCodeAt(i);
  hash ^= scramble(rest);
  return mix32(hash ^ text.length);
}

function scramble(block: number): number {
  const product = Math.imul(block, 0xcc9e_2d51);
  return Math.imul((product << 15) | (product >>> 17), 0x1b87_3593);
}

/** Murmur's finalizer: a permutation of the 32-bit integers in which every bit moves every bit. */
export function mix32(value: number): number {
  let bits = value;
  bits = Math.imul(bits ^ (bits >>> 16), 0x85eb_ca6b);
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2_ae35);
  return (bits ^ (bits >>> 16)) >>> 0;
}

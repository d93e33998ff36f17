// MurmurHash3 (Austin Appleby, public domain): the x86 32-bit hash, which maps text to rows of a
// table, and the finalizers of 32 and 64 bits, which map numbers.

/** The hash of a text with one byte per character (latin1), as an unsigned 32-bit integer. */
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

/** The hash of bytes `begin` until `end` (exclusive), equal to the hash of their latin1 text. */
export function murmurHash3Of(bytes: DataView, begin: number, end: number, seed: number): number {
  const length = end - begin;
  const blocksEnd = begin + (length & ~3);
  let hash = seed | 0;
  for (let at = begin; at < blocksEnd; at += 4) {
    hash ^= scramble(bytes.getInt32(at, true));
    hash = (Math.imul((hash << 13) | (hash >>> 19), 5) + 0xe654_6b64) | 0;
  }
  if (blocksEnd < end) {
    let rest = 0;
    for (let i = end - 1; i >= blocksEnd; i--) rest = (rest << 8) | bytes.getUint8(i);
    hash ^= scramble(rest);
  }
  return mix32(hash ^ length);
}

function scramble(block: number): number {
  const product = Math.imul(block, 0xcc9e_2d51);
  return Math.imul((product << 15) | (product >>> 17), 0x1b87_3593);
}

/**
 * Murmur's finalizer: a permutation of the 32-bit integers; every input bit affects every output
 * bit.
 */
export function mix32(value: number): number {
  let bits = value;
  bits = Math.imul(bits ^ (bits >>> 16), 0x85eb_ca6b);
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2_ae35);
  return (bits ^ (bits >>> 16)) >>> 0;
}

/**
 * Murmur's 64-bit finalizer of the number with the halves `low` and `high`, modulo `modulus`, up to
 * 2^31. It uses 32-bit words, because a bigint for every id would be far slower.
 */
export function mix64Modulo(low: number, high: number, modulus: number): number {
  // k ^= k >> 33; k *= m1; k ^= k >> 33; k *= m2; k ^= k >> 33
  const low1 = low ^ (high >>> 1);
  const high2 = multiplyHigh(low1, high, 0xed55_8ccd, 0xff51_afd7);
  const low2 = Math.imul(low1, 0xed55_8ccd) ^ (high2 >>> 1);
  const high3 = multiplyHigh(low2, high2, 0x1a85_ec53, 0xc4ce_b9fe);
  const low3 = Math.imul(low2, 0x1a85_ec53) ^ (high3 >>> 1);
  // 16 bits at a time, so that each sum is below 2^47 and exact.
  const first = ((high3 >>> 0) % modulus) * 0x1_0000 + (low3 >>> 16);
  return remainder(remainder(first, modulus) * 0x1_0000 + (low3 & 0xffff), modulus);
}

/** The lower half of the 64-bit finalizer, as a signed integer. */
export function mix64Low(low: number, high: number): number {
  const low1 = low ^ (high >>> 1);
  const high2 = multiplyHigh(low1, high, 0xed55_8ccd, 0xff51_afd7);
  const low2 = Math.imul(low1, 0xed55_8ccd) ^ (high2 >>> 1);
  const high3 = multiplyHigh(low2, high2, 0x1a85_ec53, 0xc4ce_b9fe);
  return Math.imul(low2, 0x1a85_ec53) ^ (high3 >>> 1);
}

/**
 * value % modulus, faster, for a value below 2^47. A quotient that is no integer is then too far
 * from the next integer for its rounding to 53 bits to reach it.
 */
function remainder(value: number, modulus: number): number {
  return value - Math.floor(value / modulus) * modulus;
}

/** The upper half of the 64-bit product of (low, high) and (m, mHigh). */
export function multiplyHigh(low: number, high: number, m: number, mHigh: number): number {
  const a0 = low & 0xffff;
  const a1 = low >>> 16;
  const b0 = m & 0xffff;
  const b1 = m >>> 16;
  // A product of two 16-bit numbers plus a 16-bit number fits into 32 bits, so that no carry is
  // lost.
  const first = (Math.imul(a1, b0) + (Math.imul(a0, b0) >>> 16)) >>> 0;
  const second = (Math.imul(a0, b1) + (first & 0xffff)) >>> 0;
  const carried = Math.imul(a1, b1) + (first >>> 16) + (second >>> 16);
  return (carried + Math.imul(high, m) + Math.imul(low, mHigh)) | 0;
}

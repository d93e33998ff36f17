// Exact arithmetic on 64-bit integers as pairs of 32-bit halves, because a bigint for every id
// would be far slower.

import { multiplyHigh } from "../murmur-hash.ts";

// The functions return the lower half of their result, and store the upper half here, because
// allocating a pair for every id would take longer than the hash.
let high = 0;

/** The upper half of the last result of `twangMix64` or `hashCombine`, as a signed integer. */
export function upperHalf(): number {
  return high;
}

/** Thomas Wang's mix of a 64-bit integer, which SigridHash begins with (folly, twang_mix64). */
export function twangMix64(low: number, highIn: number): number {
  // k = ~k + (k << 21)
  const flipped = ~low;
  let k = (flipped + (low << 21)) | 0;
  const carry = k >>> 0 < flipped >>> 0 ? 1 : 0;
  let h = (~highIn + ((highIn << 21) | (low >>> 11)) + carry) | 0;
  // k ^= k >>> 24; k *= 265
  k ^= (k >>> 24) | (h << 8);
  h ^= h >>> 24;
  let product = (k >>> 0) * 265;
  h = (Math.imul(h, 265) + Math.floor(product / 0x1_0000_0000)) | 0;
  k = product | 0;
  // k ^= k >>> 14; k *= 21
  k ^= (k >>> 14) | (h << 18);
  h ^= h >>> 14;
  product = (k >>> 0) * 21;
  h = (Math.imul(h, 21) + Math.floor(product / 0x1_0000_0000)) | 0;
  k = product | 0;
  // k ^= k >>> 28; k += k << 31
  k ^= (k >>> 28) | (h << 4);
  h ^= h >>> 28;
  const sum = (k + (k << 31)) | 0;
  high = (h + ((h << 31) | (k >>> 1)) + (sum >>> 0 < k >>> 0 ? 1 : 0)) | 0;
  return sum;
}

/** folly's hash_128_to_64 of `upper` and `lower`, each as a pair of halves: CityHash's mix. */
export function hashCombine(
  upperLow: number,
  upperHigh: number,
  lowerLow: number,
  lowerHigh: number,
): number {
  let low = timesMixLow(lowerLow ^ upperLow, lowerHigh ^ upperHigh);
  low ^= high >>> 15; // The shift by 47 affects only the lower half.
  low = timesMixLow(low ^ upperLow, high ^ upperHigh);
  low ^= high >>> 15;
  return timesMixLow(low, high);
}

const mixLow = 0xeb38_2d69;
const mixHigh = 0x9ddf_ea08;

function timesMixLow(low: number, highIn: number): number {
  high = multiplyHigh(low, highIn, mixLow, mixHigh);
  return Math.imul(low, mixLow);
}

/** The largest modulus for which a remainder and a limb of the number fit into a double. */
export const modulusMax = 2 ** 48;

/** The non-negative remainder of signed 64-bit integers by a modulus of 1 to 2^48. */
export class Modulus {
  readonly #modulus: number;
  /** Whether a remainder and a limb of 16 bits fit into 52 bits; otherwise limbs have 4 bits. */
  readonly #isSmall: boolean;
  /** 2^64 modulo the modulus, which is subtracted for a negative number. */
  readonly #wrap: number;

  constructor(modulus: number) {
    this.#modulus = modulus;
    this.#isSmall = modulus <= 2 ** 36;
    this.#wrap = (this.#unsigned(-1, -1) + 1) % modulus;
  }

  /** The remainder, in 0 .. modulus - 1. */
  of(low: number, highIn: number): number {
    const rest = this.#unsigned(low, highIn);
    if (highIn >= 0) return rest;
    return rest >= this.#wrap ? rest - this.#wrap : rest - this.#wrap + this.#modulus;
  }

  #unsigned(low: number, highIn: number): number {
    const modulus = this.#modulus;
    if (this.#isSmall) {
      let rest = (highIn >>> 0) % modulus;
      rest = remainder(rest * 0x1_0000 + (low >>> 16), modulus);
      return remainder(rest * 0x1_0000 + (low & 0xffff), modulus);
    }
    let rest = highIn >>> 0; // Less than the modulus.
    for (let shift = 28; shift >= 0; shift -= 4) {
      rest = remainder(rest * 16 + ((low >>> shift) & 15), modulus);
    }
    return rest;
  }
}

/**
 * value % modulus, faster, for a value below 2^52. A quotient that is no integer is then too far
 * from the next integer for its rounding to 53 bits to reach it.
 */
function remainder(value: number, modulus: number): number {
  return value - Math.floor(value / modulus) * modulus;
}

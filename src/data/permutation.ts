// A permutation is a Feistel network over the fewest bits that hold all indices, repeated until the
// result is an index (Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002):
// fewer than two repetitions on average. Philox gives the round keys, Murmur's finalizer is the
// round function.

import assert from "node:assert/strict";
import { keyOf, philox } from "../ports/random.ts";
import { mix32 } from "./murmur-hash.ts";

const rounds = 8;
/** Sizes up to here take the round's halves as bits of one 32-bit integer. */
const narrowMax = 2 ** 32;

/** A permutation of 0..size-1, keyed by (seed, purpose, step, part). `size`: at most 2^53. */
export class Permutation {
  readonly #size: number;
  readonly #isNarrow: boolean;
  readonly #leftBits: number;
  readonly #rightBits: number;
  readonly #keys = new Uint32Array(rounds);

  constructor(spec: {
    seed: number;
    purpose: number;
    step: number;
    part?: number;
    size: number;
  }) {
    assert(spec.size >= 1 && spec.size <= 2 ** 53, "a size of 1 to 2^53");
    this.#size = spec.size;
    this.#isNarrow = spec.size <= narrowMax;
    const bits = Math.max(2, bitsOf(spec.size - 1));
    this.#leftBits = bits >> 1;
    this.#rightBits = bits - this.#leftBits;
    const key = keyOf(spec.seed);
    const { step, purpose, part = 0 } = spec;
    for (let block = 0; 4 * block < rounds; block++) {
      philox(this.#keys.subarray(4 * block), key, [block, part, step >>> 0, purpose]);
    }
  }

  /** The image of `index`. */
  at(index: number): number {
    let place = index;
    do {
      place = this.#turn(place);
    } while (place >= this.#size);
    return place;
  }

  /**
   * Runs all rounds of the network. The halves swap after each round; after an even number of
   * rounds they are in their original places.
   */
  #turn(place: number): number {
    let leftBits = this.#leftBits;
    let rightBits = this.#rightBits;
    let [left, right] = [place >>> rightBits, place & (2 ** rightBits - 1)];
    if (!this.#isNarrow) {
      right = place % 2 ** rightBits;
      left = (place - right) / 2 ** rightBits;
    }
    for (let round = 0; round < rounds; round++) {
      const mixed = mix32(right ^ (this.#keys[round] ?? 0)) >>> (32 - leftBits);
      const next = left ^ mixed;
      left = right;
      right = next;
      const bits = leftBits;
      leftBits = rightBits;
      rightBits = bits;
    }
    return this.#isNarrow ? ((left << rightBits) | right) >>> 0 : left * 2 ** rightBits + right;
  }
}

/** Bits of a whole number below 2^53. */
function bitsOf(value: number): number {
  const high = Math.floor(value / narrowMax);
  return high === 0 ? 32 - Math.clz32(value) : 64 - Math.clz32(high);
}

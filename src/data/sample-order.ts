// The sample order: a permutation that is a function of (seed, epoch, index), so that a reader can
// start anywhere without state (law 4).
//
// A Feistel network over the fewest bits that hold all indices, repeated until the result is an
// index (Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002): fewer than two
// repetitions on average. Philox gives the round keys, Murmur's finalizer is the round function.

import assert from "node:assert/strict";
import { keyOf, philox, purposes } from "../ports/random.ts";
import { mix32 } from "./murmur-hash.ts";

const rounds = 8;
const samplesMax = 0x1_0000_0000;

/** The inputs that determine the order of an epoch. */
export interface SampleOrder {
  readonly seed: number;
  readonly epoch: number;
  readonly samples: number;
}

/** The sample at position `index` of an epoch. */
export function sampleAt(seed: number, epoch: number, index: number, samples: number): number {
  assert(index >= 0 && index < samples, "a place in the pass");
  return new Permutation({ seed, purpose: purposes.sampleOrder, step: epoch, size: samples }).at(
    index,
  );
}

/** Fills `out` with the samples at positions first, first + 1, … of one epoch. */
export function fillOrder(
  out: Uint32Array,
  order: SampleOrder & { readonly first: number; readonly shuffle: boolean },
): void {
  const { seed, epoch, samples, first, shuffle } = order;
  assert(first >= 0 && first + out.length <= samples, "places in the pass");
  if (out.length === 0) return;
  if (!shuffle) {
    for (let i = 0; i < out.length; i++) out[i] = first + i;
    return;
  }
  const size = samples;
  const permutation = new Permutation({ seed, purpose: purposes.sampleOrder, step: epoch, size });
  for (let i = 0; i < out.length; i++) out[i] = permutation.at(first + i);
}

/** A permutation of 0..size-1, keyed by (seed, purpose, step, part). */
export class Permutation {
  readonly #size: number;
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
    assert(spec.size >= 1 && spec.size <= samplesMax, "a size of 1 to 2^32");
    this.#size = spec.size;
    const bits = Math.max(2, 32 - Math.clz32(spec.size - 1));
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
    let right = place & (2 ** rightBits - 1);
    let left = place >>> rightBits;
    for (let round = 0; round < rounds; round++) {
      const mixed = mix32(right ^ (this.#keys[round] ?? 0)) >>> (32 - leftBits);
      const next = left ^ mixed;
      left = right;
      right = next;
      const bits = leftBits;
      leftBits = rightBits;
      rightBits = bits;
    }
    return ((left << rightBits) | right) >>> 0;
  }
}

// One sample on its way from text or a generator to the cache: memory that is used again.

import assert from "node:assert/strict";

/** Longest bag that the cache holds: its length has 16 bits there. */
export const bagIdsMax = 65_535;

/** One sample. Fill it feature by feature, in the order of the model's tables. */
export class Sample {
  /** 0 or 1. */
  label = 0;
  /** (dense) */
  readonly dense: Float32Array;
  /** (features): ids of each bag. */
  readonly lengths: Uint16Array;
  #ids: Int32Array = new Int32Array(64);
  #weights = new Float32Array(64);
  #count = 0;

  constructor(shape: { readonly dense: number; readonly features: number }) {
    this.dense = new Float32Array(shape.dense);
    this.lengths = new Uint16Array(shape.features);
  }

  /** The ids of all bags, feature after feature. Valid until the next `push`. */
  get ids(): Int32Array {
    return this.#ids;
  }

  /** What each of `ids` counts in its bag. Valid until the next `push`. */
  get weights(): Float32Array {
    return this.#weights;
  }

  /** How many of `ids` are meant. */
  get idCount(): number {
    return this.#count;
  }

  /** Forgets the ids. */
  clear(): void {
    this.#count = 0;
    this.lengths.fill(0);
  }

  /** Appends an id to the bag of `feature`; false where the bag is full. */
  push(feature: number, id: number, weight = 1): boolean {
    const length = this.lengths[feature];
    assert(length !== undefined, "a feature of the sample");
    if (length === bagIdsMax) return false;
    if (this.#count === this.#ids.length) {
      const larger = new Int32Array(2 * this.#ids.length);
      larger.set(this.#ids);
      this.#ids = larger;
      const weights = new Float32Array(larger.length);
      weights.set(this.#weights);
      this.#weights = weights;
    }
    this.#weights[this.#count] = weight;
    this.#ids[this.#count++] = id;
    this.lengths[feature] = length + 1;
    return true;
  }
}

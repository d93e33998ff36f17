// A mutable sample between a decoder or generator and the cache or batch. Its memory is reused.

import assert from "node:assert/strict";
import { groupWords, oneLabel, type Targets } from "./targets.ts";

/** Longest bag that the cache can hold: it stores the length in 16 bits. */
export const bagIdsMax = 65_535;

/** One sample. Fill it feature by feature, in the order of the model's tables. */
export class Sample {
  /** (labels): 0 or 1, or any finite number if the label is numeric. */
  readonly labels: Float32Array;
  /** Weight of its loss; 1 if the data have no weights. */
  sampleWeight = 1;
  /** Its group (targets.ts); zeros if the data have no groups. */
  readonly group = new Float32Array(groupWords);
  /** (dense) */
  readonly dense: Float32Array;
  /** (dense): 1 if the value was missing. Not set for generated samples. */
  readonly missing: Uint8Array;
  /** (features): ids of each bag. */
  readonly lengths: Uint16Array;
  #ids: Int32Array = new Int32Array(64);
  #highs: Int32Array = new Int32Array(64);
  #weights: Float32Array = new Float32Array(64).fill(1);
  #count = 0;
  /** Whether all ids have 32 bits and no weights, so that `push` writes `ids` only. */
  readonly #isPlain: boolean;

  constructor(shape: {
    readonly dense: number;
    readonly features: number;
    /** @default one label */
    readonly targets?: Targets | undefined;
    /** Whether the ids of each feature have 64 bits (`wide`) or weights. @default any may */
    readonly wide?: readonly boolean[] | undefined;
    readonly weighted?: readonly boolean[] | undefined;
  }) {
    this.#isPlain =
      shape.wide?.includes(true) === false && shape.weighted?.includes(true) === false;
    this.labels = new Float32Array((shape.targets ?? oneLabel).labels);
    this.dense = new Float32Array(shape.dense);
    this.missing = new Uint8Array(shape.dense);
    this.lengths = new Uint16Array(shape.features);
  }

  /** The first label. */
  get label(): number {
    return this.labels[0] ?? 0;
  }

  set label(label: number) {
    this.labels[0] = label;
  }

  /** The ids of all bags, feature after feature. Valid until the next `push`. */
  get ids(): Int32Array {
    return this.#ids;
  }

  /** Upper halves of `ids`, valid only for wide features. Valid until the next `push`. */
  get highs(): Int32Array {
    return this.#highs;
  }

  /** Weight of each of `ids` in its bag. Valid until the next `push`. */
  get weights(): Float32Array {
    return this.#weights;
  }

  /** Number of valid `ids`. */
  get idCount(): number {
    return this.#count;
  }

  /** Drops all ids. */
  clear(): void {
    this.#count = 0;
    this.lengths.fill(0);
  }

  /**
   * Appends an id to the bag of `feature`. Returns false if the bag is full. In a wide feature,
   * `id` is the lower half and `high` the upper half.
   */
  push(feature: number, id: number, weight = 1, high = 0): boolean {
    const length = this.lengths[feature];
    assert(length !== undefined, "a feature of the sample");
    if (length === bagIdsMax) return false;
    if (this.#count === this.#ids.length) {
      this.#ids = grown(this.#ids, new Int32Array(2 * this.#count));
      this.#highs = grown(this.#highs, new Int32Array(2 * this.#count));
      this.#weights = grown(this.#weights, new Float32Array(2 * this.#count).fill(1));
    }
    if (!this.#isPlain) {
      this.#weights[this.#count] = weight;
      this.#highs[this.#count] = high;
    }
    this.#ids[this.#count++] = id;
    this.lengths[feature] = length + 1;
    return true;
  }
}

/** Copies `from` into the beginning of `larger` and returns it. */
function grown<Elements extends Int32Array | Float32Array>(
  from: Elements,
  larger: Elements,
): Elements {
  larger.set(from);
  return larger;
}

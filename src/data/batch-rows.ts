// Assembles a prediction batch from single samples without labels.

import assert from "node:assert/strict";
import type { Means } from "./cache/cache-format.ts";
import type { BatchMemory } from "./dataset.ts";
import type { Sample } from "./sample.ts";

/**
 * Features of a batch, laid out as `BatchMemory`, but without targets and trimmed to the number of
 * ids.
 */
export interface EncodedBatch extends Omit<BatchMemory, "labels" | "sampleWeights" | "groups"> {
  readonly samples: number;
}

/** Collects samples one by one, and writes them feature-major. */
export class BatchRows {
  readonly #samples: number;
  readonly #features: number;
  readonly #dense: Float32Array;
  /** (T,B) */
  readonly #lengths: Int32Array;
  /** Ids in the order they were added: by sample, then by feature. The array grows. */
  #ids: Int32Array;
  /** Upper 32 bits of the ids, if any feature is wide. */
  #highs: Int32Array | undefined;
  /** Weights of the ids, if any feature is weighted. */
  #weights: Float32Array | undefined;
  #count = 0;
  /** Number of samples added. */
  #added = 0;
  readonly #width: number;
  /** The mean that replaces missing values, for each dense feature that is filled with its mean. */
  readonly #means: readonly (readonly [feature: number, mean: number])[];

  constructor(
    samples: number,
    {
      dense,
      wide,
      weighted,
      means,
    }: {
      readonly dense: number;
      readonly wide: readonly boolean[];
      readonly weighted: readonly boolean[];
      readonly means?: Means | undefined;
    },
  ) {
    const features = wide.length;
    this.#samples = samples;
    this.#features = features;
    this.#width = dense;
    this.#means =
      means === undefined
        ? []
        : Object.entries(means).map(([feature, mean]) => [Number(feature), mean]);
    this.#dense = new Float32Array(samples * dense);
    this.#lengths = new Int32Array(features * samples);
    const room = features * samples;
    this.#ids = new Int32Array(room);
    this.#highs = wide.includes(true) ? new Int32Array(room) : undefined;
    this.#weights = weighted.includes(true) ? new Float32Array(room) : undefined;
  }

  /** Adds a sample. Samples must be added in index order, from 0 on. */
  add(index: number, sample: Sample): void {
    assert(index === this.#added++, "samples in their order");
    this.#dense.set(sample.dense, index * this.#width);
    for (const [feature, mean] of this.#means) {
      if (Number.isNaN(sample.dense[feature])) this.#dense[index * this.#width + feature] = mean;
    }
    for (let feature = 0; feature < this.#features; feature++) {
      this.#lengths[feature * this.#samples + index] = sample.lengths[feature] ?? 0;
    }
    const { idCount } = sample;
    if (this.#count + idCount > this.#ids.length) this.#grow(this.#count + idCount);
    const from = this.#count;
    for (let i = 0; i < idCount; i++) this.#ids[from + i] = sample.ids[i] ?? 0;
    if (this.#highs !== undefined) this.#highs.set(sample.highs.subarray(0, idCount), from);
    if (this.#weights !== undefined) this.#weights.set(sample.weights.subarray(0, idCount), from);
    this.#count += idCount;
  }

  batch(): EncodedBatch {
    const order = this.#samples === 1 ? undefined : this.#byFeature();
    return {
      samples: this.#samples,
      dense: this.#dense,
      lengths: this.#lengths,
      ids: this.#ordered(this.#ids, order),
      highs: this.#highs && this.#ordered(this.#highs, order),
      weights: this.#weights && this.#ordered(this.#weights, order),
    };
  }

  #grow(count: number): void {
    const room = 2 * count;
    this.#ids = grown(this.#ids, new Int32Array(room));
    this.#highs = this.#highs && grown(this.#highs, new Int32Array(room));
    this.#weights = this.#weights && grown(this.#weights, new Float32Array(room));
  }

  /** The permutation from the added, sample-major order of the ids to feature-major order. */
  #byFeature(): Int32Array {
    const samples = this.#samples;
    const next = new Int32Array(samples);
    let start = 0;
    for (let sample = 0; sample < samples; sample++) {
      next[sample] = start;
      for (let feature = 0; feature < this.#features; feature++) {
        start += this.#lengths[feature * samples + sample] ?? 0;
      }
    }
    const order = new Int32Array(this.#count);
    let out = 0;
    for (let bag = 0; bag < this.#lengths.length; bag++) {
      const sample = bag % samples;
      let at = next[sample] ?? 0;
      for (const end = at + (this.#lengths[bag] ?? 0); at < end; at++) order[out++] = at;
      next[sample] = at;
    }
    return order;
  }

  #ordered<T extends Int32Array | Float32Array>(values: T, order: Int32Array | undefined): T {
    const out = values.slice(0, this.#count) as T;
    if (order === undefined) return out;
    for (let i = 0; i < order.length; i++) out[i] = values[order[i] ?? 0] ?? 0;
    return out;
  }
}

/** Copies `from` into the beginning of `larger` and returns it. */
function grown<T extends Int32Array | Float32Array>(from: T, larger: T): T {
  larger.set(from);
  return larger;
}

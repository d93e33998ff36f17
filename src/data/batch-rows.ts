// Samples without labels on their way to a prediction: one by one into a batch.

import type { Means } from "./cache/cache-format.ts";
import type { BatchMemory } from "./dataset.ts";
import type { Sample } from "./sample.ts";

/** Features of samples: as `BatchMemory`, without space behind the last id, without targets. */
export interface EncodedBatch extends Omit<BatchMemory, "labels" | "sampleWeights" | "groups"> {
  readonly samples: number;
}

/** Collects samples one by one, and writes them feature-major. */
export class BatchRows {
  readonly #samples: number;
  readonly #dense: Float32Array;
  readonly #lengths: Int32Array;
  /** Ids of each feature, sample after sample. */
  readonly #ids: number[][];
  /** Upper halves of the ids, where a feature is wide. */
  readonly #highs: number[][] | undefined;
  /** Weights of the ids, where a feature has them. */
  readonly #weights: number[][] | undefined;
  readonly #width: number;
  /** What missing values become, of dense features that await the mean. */
  readonly #means: readonly (readonly [feature: number, mean: number])[];

  constructor(
    samples: number,
    {
      dense,
      wide,
      weighted,
      means = {},
    }: {
      readonly dense: number;
      readonly wide: readonly boolean[];
      readonly weighted: readonly boolean[];
      readonly means?: Means | undefined;
    },
  ) {
    const features = wide.length;
    this.#samples = samples;
    this.#width = dense;
    this.#means = Object.entries(means).map(([feature, mean]) => [Number(feature), mean]);
    this.#dense = new Float32Array(samples * dense);
    this.#lengths = new Int32Array(features * samples);
    this.#ids = Array.from({ length: features }, () => []);
    this.#highs = wide.includes(true) ? this.#ids.map(() => []) : undefined;
    this.#weights = weighted.includes(true) ? this.#ids.map(() => []) : undefined;
  }

  add(index: number, sample: Sample): void {
    this.#dense.set(sample.dense, index * this.#width);
    for (const [feature, mean] of this.#means) {
      if (Number.isNaN(sample.dense[feature])) this.#dense[index * this.#width + feature] = mean;
    }
    let at = 0;
    for (const [feature, bag] of this.#ids.entries()) {
      const length = sample.lengths[feature] ?? 0;
      this.#lengths[feature * this.#samples + index] = length;
      for (const end = at + length; at < end; at++) {
        bag.push(sample.ids[at] ?? 0);
        this.#highs?.[feature]?.push(sample.highs[at] ?? 0);
        this.#weights?.[feature]?.push(sample.weights[at] ?? 0);
      }
    }
  }

  batch(): EncodedBatch {
    return {
      samples: this.#samples,
      dense: this.#dense,
      lengths: this.#lengths,
      ids: joined(this.#ids, (count) => new Int32Array(count)),
      highs: this.#highs && joined(this.#highs, (count) => new Int32Array(count)),
      weights: this.#weights && joined(this.#weights, (count) => new Float32Array(count)),
    };
  }
}

/** Lists behind each other. */
function joined<T extends Int32Array | Float32Array>(
  lists: readonly (readonly number[])[],
  make: (count: number) => T,
): T {
  let count = 0;
  for (const list of lists) count += list.length;
  const out = make(count);
  let at = 0;
  for (const list of lists) for (const value of list) out[at++] = value;
  return out;
}

// The held-out part of a dataset, as a view: the same seed gives the same samples on every host.

import { expected } from "../ports/check-options.ts";
import { purposes } from "../ports/random.ts";
import type { Dataset, SampleRange } from "./dataset.ts";
import { Permutation } from "./sample-order.ts";

/** Chooses a part of a dataset. */
export interface SplitOptions {
  /** Seed of the random choice. */
  readonly seed: number;
  /** Held-out share of the samples, above 0 and below 1. */
  readonly fraction: number;
  readonly part: "train" | "heldOut";
}

/**
 * A view of one part of `dataset`, in its order. The two parts are disjoint and together make the
 * whole. Takes 4 bytes per sample. Closing the view closes the dataset.
 * @throws InvalidOptionError where a part would be empty
 */
export function splitDataset(dataset: Dataset, options: SplitOptions): Dataset {
  const { seed, fraction, part } = options;
  const heldOut = Math.round(dataset.samples * fraction);
  if (!(heldOut > 0 && heldOut < dataset.samples)) {
    const expectation = `a share that leaves samples in both parts of ${dataset.samples}`;
    throw expected("fraction", expectation, fraction);
  }
  const isHeldOut = new Uint8Array(dataset.samples);
  const size = dataset.samples;
  const permutation = new Permutation({ seed, purpose: purposes.split, step: 0, size });
  for (let i = 0; i < heldOut; i++) isHeldOut[permutation.at(i)] = 1;
  const wanted = part === "heldOut" ? 1 : 0;
  const chosen = new Uint32Array(wanted === 1 ? heldOut : size - heldOut);
  for (let sample = 0, at = 0; sample < size; sample++) {
    if (isHeldOut[sample] === wanted) chosen[at++] = sample;
  }
  let scratch = new Uint32Array(0);
  return {
    samples: chosen.length,
    dense: dataset.dense,
    features: dataset.features,
    wide: dataset.wide,
    weighted: dataset.weighted,
    idsMax: dataset.idsMax,
    read(indices, batch) {
      if (scratch.length < indices.length) scratch = new Uint32Array(indices.length);
      for (let b = 0; b < indices.length; b++) {
        // An index beyond the view becomes an index beyond the dataset, which refuses it.
        scratch[b] = chosen[indices[b] ?? 0] ?? size;
      }
      return dataset.read(scratch.subarray(0, indices.length), batch);
    },
    hold(now, next) {
      const rangeOf = ({ first, end }: SampleRange) => {
        return { first: chosen[first] ?? 0, end: (chosen[end - 1] ?? 0) + 1 };
      };
      return dataset.hold(now.map(rangeOf), next.map(rangeOf));
    },
    get bytesRead() {
      return dataset.bytesRead;
    },
    close: () => dataset.close(),
  };
}

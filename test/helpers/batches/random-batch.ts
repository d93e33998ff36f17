// Batches of random samples; the same step gives the same batch.

import { purposes, RandomStream } from "../../../src/ports/random.ts";
import type { WholeBatch } from "../devices/local-devices.ts";

/** A batch with bags of `idsMin` (1) to `idsMax` ids for each feature, ids below its `rows`. */
export function randomBatch(
  {
    rows,
    idsMin = 1,
    idsMax,
    dense,
  }: {
    readonly rows: readonly number[];
    readonly idsMin?: number;
    readonly idsMax: readonly number[];
    readonly dense: number;
  },
  step: number,
  samples: number,
): WholeBatch {
  const stream = new RandomStream(5, purposes.syntheticIds, step);
  const lengths: number[] = [];
  const ids: number[] = [];
  for (const [feature, count] of rows.entries()) {
    for (let sample = 0; sample < samples; sample++) {
      const length = idsMin + stream.below((idsMax[feature] ?? idsMin) - idsMin + 1);
      lengths.push(length);
      for (let i = 0; i < length; i++) ids.push(stream.below(count));
    }
  }
  return {
    samples,
    dense: Float32Array.from({ length: samples * dense }, () => stream.normal()),
    labels: Float32Array.from({ length: samples }, () => stream.below(2)),
    lengths: Int32Array.from(lengths),
    ids: Int32Array.from(ids),
  };
}

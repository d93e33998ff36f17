// Batches whose label follows from the ids, so that any working training lowers the loss.

import { RandomStream } from "../../../src/ports/random.ts";
import type { WholeBatch } from "../devices/local-devices.ts";

/** The shape of a batch: samples, dense features, and the rows of its tables, in order. */
export interface BatchShape {
  readonly samples: number;
  readonly dense: number;
  readonly rows: readonly number[];
}

/** Batch `step`: bags of 0 to 2 ids; the label is 1 if the sum of the ids is even. */
export function learnableBatch(shape: BatchShape, step: number): WholeBatch {
  const { samples, dense, rows } = shape;
  const stream = new RandomStream(5, 6, step);
  const sums = new Int32Array(samples);
  const [lengths, ids]: [number[], number[]] = [[], []];
  for (const [table, count] of rows.entries()) {
    for (let sample = 0; sample < samples; sample++) {
      const length = table === 0 ? 1 : stream.below(3);
      lengths.push(length);
      for (let i = 0; i < length; i++) {
        const id = stream.below(count);
        ids.push(id);
        if (table === 0) sums[sample] = (sums[sample] ?? 0) + id;
      }
    }
  }
  return {
    samples,
    dense: Float32Array.from({ length: samples * dense }, () => stream.uniform()),
    labels: Float32Array.from(sums, (sum) => (sum % 2 === 0 ? 1 : 0)),
    lengths: Int32Array.from(lengths),
    ids: Int32Array.from(ids),
  };
}

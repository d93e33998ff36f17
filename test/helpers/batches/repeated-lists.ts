// Batches in which samples repeat lists of the sample before, like those of a session.

import type { IkjtGroups } from "../../../src/data/sessions/ikjt.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import type { WholeBatch } from "../devices/local-devices.ts";

/**
 * The batch with the lists of each group repeated: a sample has the lists of the sample before it
 * with probability `repeated`, and those of any earlier sample with probability `returning`.
 */
export function withRepeatedLists(
  batch: WholeBatch,
  groups: IkjtGroups,
  step: number,
  { repeated = 0.6, returning = 0.1 } = {},
): WholeBatch {
  const { samples } = batch;
  const stream = new RandomStream(11, 12, step);
  const features = batch.lengths.length / samples;
  const from = Array.from({ length: features }, () =>
    Int32Array.from({ length: samples }, (_, i) => i),
  );
  for (const group of groups) {
    for (let sample = 1; sample < samples; sample++) {
      const drawn = stream.uniform();
      if (drawn >= repeated + returning) continue;
      const other = drawn < repeated ? sample - 1 : stream.below(sample);
      for (const feature of group) {
        const own = from[feature];
        if (own !== undefined) own[sample] = own[other] ?? sample;
      }
    }
  }
  const starts = new Int32Array(batch.lengths.length + 1);
  for (const [bag, length] of batch.lengths.entries())
    starts[bag + 1] = (starts[bag] ?? 0) + length;
  const lengths: number[] = [];
  const ids: number[] = [];
  const highs: number[] = [];
  const weights: number[] = [];
  for (const [feature, own] of from.entries()) {
    for (const sample of own) {
      const bag = feature * samples + sample;
      const [first, end] = [starts[bag] ?? 0, starts[bag + 1] ?? 0];
      lengths.push(end - first);
      ids.push(...batch.ids.subarray(first, end));
      highs.push(...(batch.highs?.subarray(first, end) ?? []));
      weights.push(...(batch.weights?.subarray(first, end) ?? []));
    }
  }
  return {
    ...batch,
    lengths: Int32Array.from(lengths),
    ids: Int32Array.from(ids),
    highs: batch.highs && Int32Array.from(highs),
    weights: batch.weights && Float32Array.from(weights),
  };
}

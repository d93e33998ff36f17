// Checks that the arrays of a caller's batch fit together, and splits large batches.
//
// B = samples, T = features; (T,B) and ids are feature-major.

import type { EncodedBatch } from "../../src/data/batch-rows.ts";
import { expected } from "../../src/ports/check-options.ts";

/** @throws InvalidOptionError naming the array that does not fit the others */
export function checkBatch(
  batch: EncodedBatch,
  shape: {
    readonly dense: number;
    readonly features: number;
    readonly isWide: boolean;
    readonly isWeighted: boolean;
  },
): void {
  const { samples, dense, lengths, ids, highs, weights } = batch;
  if (!(Number.isInteger(samples) && samples >= 0)) {
    throw expected("batch.samples", "an integer >= 0", samples);
  }
  const wanted = { dense: samples * shape.dense, lengths: samples * shape.features };
  for (const [name, array] of Object.entries({ dense, lengths })) {
    const length = wanted[name as keyof typeof wanted];
    if (array.length === length) continue;
    throw expected(`batch.${name}`, `${length} numbers for ${samples} samples`, array.length);
  }
  let total = 0;
  for (let at = 0; at < lengths.length; at++) {
    const length = lengths[at] ?? 0;
    if (length < 0) throw expected(`batch.lengths[${at}]`, "an integer >= 0", length);
    total += length;
  }
  if (ids.length !== total) {
    throw expected("batch.ids", `as many ids as \`batch.lengths\` add up to, ${total}`, ids.length);
  }
  if (shape.isWide && highs?.length !== total) {
    throw expected("batch.highs", `the upper halves of ${total} ids`, highs?.length);
  }
  if (weights?.length !== (shape.isWeighted ? total : undefined)) {
    const wanted = shape.isWeighted
      ? `${total} numbers, one for each id`
      : "left out, as the model was trained without";
    throw expected("batch.weights", wanted, weights?.length);
  }
  const bad = weights?.findIndex((weight) => !Number.isFinite(weight)) ?? -1;
  if (bad >= 0) throw expected(`batch.weights[${bad}]`, "a finite number", String(weights?.[bad]));
}

/** Splits a batch into pieces of at most `samplesMax` samples. A small batch is not copied. */
export function* piecesOf(batch: EncodedBatch, samplesMax: number): Generator<EncodedBatch> {
  const { samples, dense, lengths, ids, highs, weights } = batch;
  if (samples === 0) return;
  if (samples <= samplesMax) {
    yield batch;
    return;
  }
  const width = dense.length / samples;
  const features = lengths.length / samples;
  const next = idStarts(batch, features);
  for (let first = 0; first < samples; first += samplesMax) {
    const count = Math.min(samplesMax, samples - first);
    const some = new Int32Array(features * count);
    const taken: number[] = [];
    for (let feature = 0; feature < features; feature++) {
      const from = feature * samples + first;
      some.set(lengths.subarray(from, from + count), feature * count);
      let at = next[feature] ?? 0;
      for (let i = from; i < from + count; i++) {
        for (const end = at + (lengths[i] ?? 0); at < end; at++) taken.push(at);
      }
      next[feature] = at;
    }
    yield {
      samples: count,
      dense: dense.subarray(first * width, (first + count) * width),
      lengths: some,
      ids: Int32Array.from(taken, (at) => ids[at] ?? 0),
      highs: highs && Int32Array.from(taken, (at) => highs[at] ?? 0),
      weights: weights && Float32Array.from(taken, (at) => weights[at] ?? 0),
    };
  }
}

/** Offset of each feature's first id. */
function idStarts({ samples, lengths }: EncodedBatch, features: number): number[] {
  let total = 0;
  return Array.from({ length: features }, (_, feature) => {
    const start = total;
    for (let i = feature * samples; i < (feature + 1) * samples; i++) total += lengths[i] ?? 0;
    return start;
  });
}

// Merges the encoded batches of several requests, in order.
//
// B = samples, T = features; (T,B) and ids are feature-major.

import type { EncodedBatch } from "../../../../internal.ts";

/** Merges batches into one. `features`: T. All batches must fit the model. */
export function mergeBatches(batches: readonly EncodedBatch[], features: number): EncodedBatch {
  const [only] = batches;
  if (only !== undefined && batches.length === 1) return only;
  const sum = (of: (batch: EncodedBatch) => number) => batches.reduce((all, b) => all + of(b), 0);
  const samples = sum((batch) => batch.samples);
  const idCount = sum((batch) => batch.ids.length);
  const dense = new Float32Array(sum((batch) => batch.dense.length));
  const lengths = new Int32Array(features * samples);
  const ids = new Int32Array(idCount);
  const highs = only?.highs && new Int32Array(idCount);
  const weights = only?.weights && new Float32Array(idCount);
  let at = 0;
  for (const batch of batches) {
    dense.set(batch.dense, at);
    at += batch.dense.length;
  }
  const taken = batches.map(() => 0); // copied ids of each batch
  let sample = 0;
  let id = 0;
  for (let feature = 0; feature < features; feature++) {
    for (const [i, batch] of batches.entries()) {
      const own = batch.lengths.subarray(feature * batch.samples, (feature + 1) * batch.samples);
      lengths.set(own, sample);
      sample += own.length;
      const from = taken[i] ?? 0;
      const end = own.reduce((all, length) => all + length, from);
      ids.set(batch.ids.subarray(from, end), id);
      if (batch.highs !== undefined) highs?.set(batch.highs.subarray(from, end), id);
      if (batch.weights !== undefined) weights?.set(batch.weights.subarray(from, end), id);
      id += end - from;
      taken[i] = end;
    }
  }
  return { samples, dense, lengths, ids, highs, weights };
}

// Encodes one user and many candidates as a batch that stores the user's features once. A column
// that no candidate's record has is the user's. If transforms compute features from several
// columns, the merged records are encoded instead, and features that are equal in all of them count
// as the user's.

import type { EncodedBatch } from "../../src/data/batch-rows.ts";
import type { RecordEncoder, SampleRecord } from "../../src/data/records.ts";
import type { RankedBatch } from "../../src/serving/scorer.ts";
import { piecesOf } from "./encoded-batch.ts";

/**
 * Encodes at least one candidate, and at most as many as a scorer takes at once.
 * @throws InvalidOptionError naming the record and its column
 */
export function rankedBatch(
  encoder: RecordEncoder,
  user: SampleRecord,
  candidates: readonly SampleRecord[],
): RankedBatch {
  const merged = (candidate: SampleRecord) => ({ ...user, ...candidate });
  const { columns } = encoder;
  const [first] = candidates;
  if (columns === undefined || first === undefined || candidates.length === 1) {
    return sharedIn(encoder.encode(candidates.map(merged)));
  }
  const firstKeys = Object.keys(first);
  const named = new Set(firstKeys);
  const isAlike = (candidate: SampleRecord) => {
    const keys = Object.keys(candidate);
    return keys.length === firstKeys.length && keys.every((key) => named.has(key));
  };
  const isNested = (name: string) =>
    name.includes(".") && firstKeys.some((key) => name.startsWith(`${key}.`));
  // Each candidate is merged with the user where candidates name different columns, because merging
  // checks the names, and where a column is a member of a nested object, as `item.id` of `item`.
  if (!candidates.every(isAlike) || [...columns.dense, ...columns.features].some(isNested)) {
    return sharedIn(encoder.encode(candidates.map(merged)));
  }
  const ofUser = encoder.encode([merged(first)]);
  const own = encoder.encode(candidates, named);
  const isDenseOfUser = !columns.dense.some((name) => named.has(name));
  if (!isDenseOfUser) {
    const width = columns.dense.length;
    for (const [at, name] of columns.dense.entries()) {
      if (named.has(name)) continue;
      for (let i = at; i < own.dense.length; i += width) own.dense[i] = ofUser.dense[at] ?? 0;
    }
  }
  const isOfUser = columns.features.map((name) => !named.has(name));
  return { user: ofUser, candidates: own, isOfUser, isDenseOfUser };
}

/** Detects the features that are equal in all samples of a batch. */
function sharedIn(batch: EncodedBatch): RankedBatch {
  const { samples, dense, lengths, ids, highs, weights } = batch;
  const [user = batch] = piecesOf(batch, 1);
  const width = dense.length / samples;
  let end = 0;
  const isOfUser = Array.from({ length: lengths.length / samples }, (_, feature) => {
    const own = lengths.subarray(feature * samples, (feature + 1) * samples);
    const [length = 0] = own;
    const first = end;
    for (const one of own) end += one;
    if (!own.every((one) => one === length)) return false;
    for (let at = first + length; at < end; at++) {
      if (ids[at] !== ids[at - length]) return false;
      if (highs?.[at] !== highs?.[at - length]) return false;
      if (!Object.is(weights?.[at], weights?.[at - length])) return false;
    }
    return true;
  });
  const isDenseOfUser = dense.every((value, at) => Object.is(value, dense[at % width]));
  return { user, candidates: batch, isOfUser, isDenseOfUser };
}

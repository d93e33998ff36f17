// The room for the ids of a batch. Memory that is shared between threads is laid out before the
// first batch is read; room for the longest bag in every sample would be far more than any batch
// needs where one sample in a million is long. So the room follows from the mean, and a batch with
// more ids is moved in several pieces (src/exchange/long-frames.ts,
// batch-pieces.ts).

import { SizeExceededError } from "../errors/errors.ts";

/** Most ids of a batch on a device: their offsets have 31 bits. */
export const batchIdsMax = 2 ** 31 - 1;

/** Returns the number of ids. @throws SizeExceededError if it exceeds the range of offsets */
export function checkedIds(ids: number): number {
  if (ids <= batchIdsMax) return ids;
  const mend = "lower `data.batchSize`, shorten the lists (`firstX`), or train on more devices";
  throw new SizeExceededError("Ids of a batch on one device", ids, batchIdsMax, mend);
}

/** Ids of one feature in a sample. */
export interface BagSizes {
  readonly mean: number;
  /** The longest bag. */
  readonly most: number;
}

/** Standard deviations above the mean for which there is room. */
const deviations = 4;

/**
 * Room for the ids of a feature in `samples` samples. Values in 0..most with this mean have a
 * variance of at most mean * most (Bhatia and Davis, 2000), so samples that are drawn at random
 * have more ids at most once in sixteen batches (Chebyshev), and in practice almost never. A single
 * longest bag always has room.
 */
export function idsRoom(samples: number, { mean, most }: BagSizes): number {
  const expected = samples * Math.min(mean, most);
  const spread = deviations * Math.sqrt(expected * most);
  return Math.min(samples * most, Math.ceil(expected + spread) + most);
}

/** Whether a batch may have more ids of a feature than there is room for. */
export function mayOverflow({ mean, most }: BagSizes): boolean {
  return mean < most;
}

// Selects the pieces of a streamed dataset to hold while its samples are read in order: such a
// dataset reads only samples in held ranges.

import type { Dataset, SampleRange } from "./dataset.ts";

/**
 * The pieces of the samples first .. first+count-1, and the piece after them, to prefetch.
 * Undefined if the dataset does not need its samples to be held.
 */
export function piecesAt(
  { isStreamed, pieces }: Pick<Dataset, "isStreamed" | "pieces">,
  first: number,
  count: number,
): { readonly now: SampleRange[]; readonly next: SampleRange[] } | undefined {
  if (isStreamed !== true || pieces === undefined) return undefined;
  const now: SampleRange[] = [];
  for (const [piece, from] of pieces.entries()) {
    const end = pieces[piece + 1];
    if (end === undefined) break;
    if (end <= first) continue;
    if (from >= first + count) return { now, next: [{ first: from, end }] };
    now.push({ first: from, end });
  }
  return { now, next: [] };
}

/**
 * Holds the samples first .. first+count-1 if the dataset requires it. @throws as `Dataset.hold`
 */
export async function holdAt(dataset: Dataset, first: number, count: number): Promise<void> {
  const held = piecesAt(dataset, first, count);
  if (held !== undefined) await dataset.hold(held.now, held.next);
}

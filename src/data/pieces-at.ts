// Which pieces of a dataset are to be held while its samples are read in their order, where the
// dataset knows those samples alone that are held.

import type { Dataset, SampleRange } from "./dataset.ts";

/**
 * The pieces with the samples first .. first+count-1, and the one behind them, which is read ahead.
 * Undefined: the dataset knows all its samples at any time.
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

/** Holds the samples first .. first+count-1, where they must be. @throws as `Dataset.hold` */
export async function holdAt(dataset: Dataset, first: number, count: number): Promise<void> {
  const held = piecesAt(dataset, first, count);
  if (held !== undefined) await dataset.hold(held.now, held.next);
}

// The pieces of a cache: runs of samples of one row group, rounded to whole blocks. A streaming
// reader encodes samples piece by piece, and the split order uses pieces as its splits.
//
//   row groups   |------- 70 -------|----- 50 -----|
//   blocks       |  32  |  32  |  32  |  32  |     pieces start at blocks, so no block
//   pieces       |---------- 96 ------|---- 24 ---|   belongs to two pieces
//
// A streamed dataset reads only samples in held ranges: its reader holds the pieces of the samples.

import type { Dataset, SampleNumbers, SampleRange } from "../dataset.ts";
import { startsOf } from "./blocks.ts";
import { type BlockTable, blockSamples, type CacheMeta } from "./cache-format.ts";

/** Most pieces of a data set. Every manifest stores their starts, so short pieces are merged. */
const piecesMax = 16_384;

/** First sample of each piece, then the end; undefined if the sources have no row groups. */
export function pieceStartsOf({
  pieces,
  samples,
}: Pick<CacheMeta, "pieces" | "samples">): SampleNumbers | undefined {
  if (pieces === undefined) return undefined;
  const least = Math.ceil(samples / piecesMax);
  const starts = [0];
  let end = 0;
  for (const piece of pieces) {
    end += piece.samples;
    const start = Math.ceil(end / blockSamples) * blockSamples;
    if (start < samples && start - (starts.at(-1) ?? 0) >= least) starts.push(start);
  }
  return Float64Array.from([...starts, samples]);
}

/** Size of each piece in memory, in bytes. */
export function pieceBytesOf(starts: SampleNumbers, table: BlockTable): Float64Array {
  const blocks = startsOf(table);
  const byteAt = (sample: number) => 4 * (blocks[Math.ceil(sample / blockSamples)] ?? 0);
  return Float64Array.from(starts.subarray(1), (end, i) => byteAt(end) - byteAt(starts[i] ?? 0));
}

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

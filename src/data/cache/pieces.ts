// The pieces of a cache: runs of samples of one row group, rounded to whole blocks. A streaming
// reader encodes samples piece by piece, and the split order uses pieces as its splits.
//
//   row groups   |------- 70 -------|----- 50 -----|
//   blocks       |  32  |  32  |  32  |  32  |     pieces start at blocks, so no block
//   pieces       |---------- 96 ------|---- 24 ---|   belongs to two pieces
//
// A streamed dataset reads only samples in held ranges: its reader holds the pieces of the samples.

import type { Dataset, SampleNumbers, SampleRange } from "../dataset.ts";
import type { PagedTable } from "./block-table.ts";
import { blockSamples, type CacheMeta, sampleHeadWords } from "./cache-format.ts";

/**
 * Up to this number of pieces, short pieces are merged to have an equal share of the samples: then
 * messages and manifests write them out (split-starts.ts).
 */
const piecesMax = 16_384;
/**
 * Size in memory to which short pieces of larger data are merged, in bytes: a reader holds two for
 * each of eight slices (sample-order.ts).
 */
const mergedBytes = 0x200_0000;

/** The facts of a cache that determine how short pieces are merged. */
export interface MergeRule
  extends Pick<CacheMeta, "samples" | "dense" | "features" | "targets" | "wide" | "weighted"> {
  readonly statistics?: readonly { readonly idsSum: number }[] | undefined;
}

/**
 * Least number of samples of a merged piece: a function of the samples alone, so that data have the
 * same pieces with and without a cache.
 */
export function pieceSamplesMin(meta: MergeRule): number {
  const share = Math.ceil(meta.samples / piecesMax);
  const { statistics, wide, weighted } = meta;
  if (statistics === undefined) return share; // Not counted: an early index.
  const words = statistics.reduce((sum, { idsSum }, feature) => {
    const perId = 1 + (wide[feature] === true ? 1 : 0) + (weighted[feature] === true ? 1 : 0);
    return sum + perId * idsSum;
  }, meta.samples * sampleHeadWords(meta));
  return Math.max(1, Math.min(share, Math.floor((mergedBytes * meta.samples) / (4 * words))));
}

/** First sample of each piece, then the end; undefined if the sources have no row groups. */
export function pieceStartsOf(
  meta: MergeRule & Pick<CacheMeta, "pieces">,
): SampleNumbers | undefined {
  if (meta.pieces === undefined) return undefined;
  return mergedStarts(
    meta.pieces.map(({ samples }) => samples),
    meta,
  );
}

/** First sample of each merged piece, then the end. `pieces`: samples of each piece. */
export function mergedStarts(pieces: ArrayLike<number>, meta: MergeRule): SampleNumbers {
  const { samples } = meta;
  const least = pieceSamplesMin(meta);
  const starts = new Float64Array(pieces.length + 2);
  let [count, last, end] = [1, 0, 0];
  for (let i = 0; i < pieces.length; i++) {
    end += pieces[i] ?? 0;
    const start = Math.ceil(end / blockSamples) * blockSamples;
    if (start >= samples || start - last < least) continue;
    starts[count++] = start;
    last = start;
  }
  starts[count++] = samples;
  return starts.slice(0, count);
}

/** Size in memory of the largest piece, in bytes. */
export function pieceBytesMax(starts: SampleNumbers, table: PagedTable): number {
  let most = 0;
  for (let i = 0; i + 1 < starts.length; i++) {
    const [first, end] = [starts[i] ?? 0, starts[i + 1] ?? 0];
    const words = table.startOf(table.blockOf(end - 1) + 1) - table.startOf(table.blockOf(first));
    most = Math.max(most, 4 * words);
  }
  return most;
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
  for (let piece = pieceWith(pieces, first); piece + 1 < pieces.length; piece++) {
    const [from = 0, end = 0] = [pieces[piece], pieces[piece + 1]];
    if (from >= first + count) return { now, next: [{ first: from, end }] };
    now.push({ first: from, end });
  }
  return { now, next: [] };
}

/** Index of the last of the ascending `starts` that is at most `sample`. */
export function pieceWith(starts: SampleNumbers, sample: number): number {
  let [low, high] = [0, starts.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >>> 1;
    if ((starts[middle] ?? 0) <= sample) low = middle;
    else high = middle - 1;
  }
  return low;
}

/**
 * Holds the samples first .. first+count-1 if the dataset requires it. @throws as `Dataset.hold`
 */
export async function holdAt(dataset: Dataset, first: number, count: number): Promise<void> {
  const held = piecesAt(dataset, first, count);
  if (held !== undefined) await dataset.hold(held.now, held.next);
}

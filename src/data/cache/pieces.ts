// The pieces of a cache: runs of samples of one row group, rounded to whole blocks. A streaming
// reader encodes samples piece by piece, and the split order uses pieces as its splits.
//
//   row groups   |------- 70 -------|----- 50 -----|
//   blocks       |  32  |  32  |  32  |  32  |     pieces start at blocks, so no block
//   pieces       |---------- 96 ------|---- 24 ---|   belongs to two pieces

import { startsOf } from "./blocks.ts";
import type { BlockTable, CacheMeta } from "./cache-format.ts";
import { blockSamples } from "./cache-format.ts";

/** Most pieces of a data set. Every manifest stores their starts, so short pieces are merged. */
const piecesMax = 16_384;

/** First sample of each piece, then the end; undefined if the sources have no row groups. */
export function pieceStartsOf({
  pieces,
  samples,
}: Pick<CacheMeta, "pieces" | "samples">): Uint32Array | undefined {
  if (pieces === undefined) return undefined;
  const least = Math.ceil(samples / piecesMax);
  const starts = [0];
  let end = 0;
  for (const piece of pieces) {
    end += piece.samples;
    const start = Math.ceil(end / blockSamples) * blockSamples;
    if (start < samples && start - (starts.at(-1) ?? 0) >= least) starts.push(start);
  }
  return Uint32Array.from([...starts, samples]);
}

/** Size of each piece in memory, in bytes. */
export function pieceBytesOf(starts: Uint32Array, table: BlockTable): Float64Array {
  const blocks = startsOf(table);
  const byteAt = (sample: number) => 4 * (blocks[Math.ceil(sample / blockSamples)] ?? 0);
  return Float64Array.from(starts.subarray(1), (end, i) => byteAt(end) - byteAt(starts[i] ?? 0));
}

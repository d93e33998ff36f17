// The pieces of a cache: the runs of samples that lie in one row group of a file. A reader of
// samples without a cache makes them piece by piece, and the split order goes through them as its
// splits.
//
//   row groups   |------- 70 -------|----- 50 -----|
//   blocks       |  32  |  32  |  32  |  32  |     a piece begins with a block: no block is made
//   pieces       |---------- 96 ------|---- 24 ---|   with two pieces

import { startsOf } from "./blocks.ts";
import type { BlockTable, CacheMeta } from "./cache-format.ts";
import { blockSamples } from "./cache-format.ts";

/** Pieces of one data set: their starts stand in every manifest. */
const piecesMax = 16_384;

/** The first sample of each piece, and the end; undefined: the samples lie in no row groups. */
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

/** Bytes of each piece in memory. */
export function pieceBytesOf(starts: Uint32Array, table: BlockTable): Float64Array {
  const blocks = startsOf(table);
  const byteAt = (sample: number) => 4 * (blocks[Math.ceil(sample / blockSamples)] ?? 0);
  return Float64Array.from(starts.subarray(1), (end, i) => byteAt(end) - byteAt(starts[i] ?? 0));
}

// Sampling of rows. Whether a row is kept is a function of the seed and the row's identity alone,
// so that a resumed run, or one that reads its files in other pieces, keeps the same rows.

import { hashCombine, twangMix64, upperHalf } from "./hash64.ts";
import type { Rows, TransformOf } from "./op.ts";
import { asIds, halvesOf, type TransformColumn } from "./values.ts";

/**
 * (rows): 1 for rows that are kept. A row's identity is the first id of `column`, if the options
 * name one, or 0 for a row without an id; otherwise it is the index of its file and its index in
 * the file.
 */
export function keptRows(
  { seed, rate, by }: TransformOf<"sampling">,
  column: TransformColumn | undefined,
  { rows, place, firstRow }: Pick<Rows, "rows" | "place" | "firstRow">,
): Uint8Array {
  const kept = new Uint8Array(rows);
  const ids = by === undefined ? undefined : asIds(column);
  const halves = ids && halvesOf(ids);
  const upper = Math.floor(seed / 0x1_0000_0000);
  for (let row = 0; row < rows; row++) {
    let [low, high] = [firstRow + row, place];
    if (ids !== undefined && halves !== undefined) {
      const at = ids.offsets[row] as number;
      const isEmpty = at === ids.offsets[row + 1];
      [low, high] = isEmpty ? [0, 0] : [halves[2 * at] as number, halves[2 * at + 1] as number];
    }
    const mixed = twangMix64(low | 0, high | 0);
    const hash = hashCombine(seed | 0, upper | 0, mixed, upperHalf());
    // The upper 53 bits as a number in [0, 1).
    const share = ((upperHalf() >>> 0) * 2 ** 21 + (hash >>> 11)) / 2 ** 53;
    kept[row] = share < rate ? 1 : 0;
  }
  return kept;
}

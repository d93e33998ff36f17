// Computes the table rows of hashed integer ids for a whole column at once. An id's decimal text is
// hashed. The addon hashes identically and faster (native/ingest/ids.h).

import assert from "node:assert/strict";
import { type Addon, loadAddon } from "../../ports/addon.ts";
import { mix32, murmurHash3 } from "../murmur-hash.ts";
import type { IdColumn } from "./column.ts";

/** The table that ids are hashed to. Its index is the `seed`. */
export interface HashedTable {
  readonly seed: number;
  readonly rows: number;
}

/** Computes (N), the row of each entry of a column. */
export type HashIds = (column: IdColumn) => Int32Array;

/** The fastest available hasher: the addon's if it is built, otherwise `hasherOf`. */
export function idHasher(table: HashedTable, addon: Addon | undefined = loadAddon()): HashIds {
  if (addon === undefined) return hasherOf(table);
  return ({ ids, offsets, isUnsigned = false }) => {
    const found = new Int32Array(offsets.at(-1) ?? 0);
    // The addon checks array types only: a wrong length would make it read memory outside them.
    assert(ids.length >= found.length, "an id for each entry");
    addon.hashIds(found, ids, isUnsigned, table.seed, table.rows);
    return found;
  };
}

/** Slots for cached ids: a power of two. */
const knownMax = 4096;

/**
 * The reference hasher, in TypeScript, which defines the rows. It caches the rows of recent ids,
 * because popular ids recur often.
 */
export function hasherOf({ seed, rows }: HashedTable): HashIds {
  // Per slot: low half, high half, row, whether the id is signed. Row 0 marks a free slot.
  const known = new Int32Array(4 * knownMax);
  return (column) => {
    const { ids, offsets, isUnsigned } = column;
    const sign = isUnsigned === true ? 0 : 1;
    const halves = new Int32Array(ids.buffer, ids.byteOffset, 2 * ids.length);
    const found = new Int32Array(offsets.at(-1) ?? 0);
    for (let at = 0; at < found.length; at++) {
      const [low, high] = [halves[2 * at] ?? 0, halves[2 * at + 1] ?? 0];
      const place = 4 * (mix32(low ^ Math.imul(high, 0x9e37_79b1)) & (knownMax - 1));
      let row = known[place + 2] ?? 0;
      const isKnown =
        known[place] === low && known[place + 1] === high && known[place + 3] === sign;
      if (row === 0 || !isKnown) {
        row = 1 + (murmurHash3(textOfId(column, at), seed) % (rows - 1));
        known.set([low, high, row, sign], place);
      }
      found[at] = row;
    }
    return found;
  };
}

/** The decimal text of an id. */
export function textOfId({ ids, isUnsigned }: IdColumn, at: number): string {
  const id = ids[at] ?? 0n;
  return String(isUnsigned === true ? BigInt.asUintN(64, id) : id);
}

// The rows of ids whose decimals are hashed, of a whole column at once. The addon hashes faster
// (native/ingest/ids.h), and the same.

import assert from "node:assert/strict";
import { type Addon, loadAddon } from "../../ports/addon.ts";
import { mix32, murmurHash3 } from "../murmur-hash.ts";
import type { IdColumn } from "./column.ts";

/** The table that ids are hashed to: `seed` is its index. */
export interface HashedTable {
  readonly seed: number;
  readonly rows: number;
}

/** (N): the row of each entry of a column. */
export type HashIds = (column: IdColumn) => Int32Array;

/** The fastest hasher that there is: the addon's, where it is built. */
export function idHasher(table: HashedTable, addon: Addon | undefined = loadAddon()): HashIds {
  if (addon === undefined) return hasherOf(table);
  return ({ ids, offsets, isUnsigned = false }) => {
    const found = new Int32Array(offsets.at(-1) ?? 0);
    // The addon checks types alone: with a wrong length it would read other memory.
    assert(ids.length >= found.length, "an id for each entry");
    addon.hashIds(found, ids, isUnsigned, table.seed, table.rows);
    return found;
  };
}

/** Ids that are remembered: a power of two. */
const knownMax = 4096;

/**
 * The hasher that defines the rows. Ids that were hashed are remembered, as the popular ones come
 * again and again.
 */
export function hasherOf({ seed, rows }: HashedTable): HashIds {
  // Low half, high half, row, whether it has a sign: one line of a cache. Row 0: nothing is known.
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

/** The decimals of an id. */
export function textOfId({ ids, isUnsigned }: IdColumn, at: number): string {
  const id = ids[at] ?? 0n;
  return String(isUnsigned === true ? BigInt.asUintN(64, id) : id);
}

// Counts the ids of a feature: distinct ids by their hashes, and all ids by equal ranges of rows.
// The addon counts identically and faster (native/ingest/distinct.h).

import assert from "node:assert/strict";
import { type Addon, loadAddon } from "../../ports/addon.ts";
import { mix32 } from "../murmur-hash.ts";

/** A sample of distinct hashes: a hash table with open addressing and linear probing. */
export interface DistinctSlots {
  /** (slots, 2): a hash and its count; a free slot has the count 0. */
  slots: Int32Array;
  /** Number of slots minus one; the number of slots is a power of two. */
  mask: number;
  /** Sampling mask: only hashes in which these bits are zero are counted. */
  sampled: number;
  /** Number of distinct hashes in the slots. */
  counted: number;
}

/** A count saturates at this value. */
export const timesMax = 2 ** 17;

export interface IdCounter {
  /**
   * Counts ids first .. end-1 by their hashes; with `areHashes`, `ids` holds the hashes. Returns
   * the index of the first id not counted: `end`, or earlier if more than half of the slots are
   * occupied.
   */
  countDistinct(
    of: DistinctSlots,
    ids: Int32Array,
    first: number,
    end: number,
    areHashes: boolean,
  ): number;
  /**
   * Counts each of the ids first .. end-1 in run `floor(id * perRow)`; ids beyond the runs are
   * ignored.
   */
  countRuns(runs: Float64Array, ids: Int32Array, first: number, end: number, perRow: number): void;
}

/** The reference counter, in TypeScript, which defines the results. */
export const plainCounter: IdCounter = {
  countDistinct(of, ids, first, end, areHashes) {
    const { slots, mask, sampled } = of;
    for (let i = first; i < end; i++) {
      const hash = areHashes ? (ids[i] ?? 0) : mix32(ids[i] ?? 0) | 0;
      if ((hash & sampled) !== 0) continue;
      const at = slotOf(slots, mask, hash);
      const times = slots[at + 1] ?? 0;
      if (times > 0) {
        if (times < timesMax) slots[at + 1] = times + 1;
        continue;
      }
      slots[at] = hash;
      slots[at + 1] = 1;
      of.counted++;
      if (2 * of.counted > mask) return i + 1;
    }
    return end;
  },
  countRuns(runs, ids, first, end, perRow) {
    for (let at = first; at < end; at++) {
      const run = Math.floor((ids[at] ?? 0) * perRow);
      if (run >= 0 && run < runs.length) runs[run] = (runs[run] ?? 0) + 1;
    }
  },
};

/** The fastest available counter: the addon's if it is built, otherwise `plainCounter`. */
export function idCounter(addon: Addon | undefined = loadAddon()): IdCounter {
  if (addon === undefined) return plainCounter;
  const { countDistinct, countRuns } = addon;
  const counted = new Int32Array(1);
  // The addon checks array types only: a wrong length would make it touch memory outside them.
  return {
    countDistinct(of, ids, first, end, areHashes) {
      const { slots, mask, sampled } = of;
      assert(slots.length === 2 * (mask + 1) && end <= ids.length, "slots, and ids");
      counted[0] = of.counted;
      const own = [slots, sampled, mask, timesMax];
      const next = Number(countDistinct(...own, counted, ids, first, end, areHashes));
      of.counted = counted[0];
      return next;
    },
    countRuns(runs, ids, first, end, perRow) {
      assert(end <= ids.length, "the ids");
      countRuns(runs, ids, first, end, perRow);
    },
  };
}

/** Index in `slots` of a hash, or of the free slot where it belongs. */
export function slotOf(slots: Int32Array, mask: number, hash: number): number {
  // The upper half selects the slot, because the lower bits of a sampled hash are all zero.
  let slot = (hash >>> 16) & mask;
  while ((slots[2 * slot + 1] ?? 0) > 0 && slots[2 * slot] !== hash) slot = (slot + 1) & mask;
  return 2 * slot;
}

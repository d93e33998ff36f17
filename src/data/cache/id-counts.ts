// Counts ids of features: distinct ones by their hashes, and all in even runs of rows. The addon
// counts faster (native/ingest/distinct.h), and the same.

import assert from "node:assert/strict";
import { type Addon, loadAddon } from "../../ports/addon.ts";
import { mix32 } from "../murmur-hash.ts";

/** A sample of distinct hashes, in slots that are found by open addressing with linear probing. */
export interface DistinctSlots {
  /** (slots, 2): a hash and its count; a free slot has the count 0. */
  slots: Int32Array;
  /** The number of slots, a power of two, less one. */
  mask: number;
  /** These bits are zero in every counted hash. */
  sampled: number;
  /** Distinct hashes. */
  counted: number;
}

/** A count stands still there. */
export const timesMax = 2 ** 17;

export interface IdCounter {
  /**
   * Counts ids first .. end-1 by their hashes, or the hashes themselves. Returns the first one that
   * is not counted: before it, more than half of the slots were taken.
   */
  countDistinct(
    of: DistinctSlots,
    ids: Int32Array,
    first: number,
    end: number,
    areHashes: boolean,
  ): number;
  /** Counts ids first .. end-1 in the run that each is times `perRow`; others count nowhere. */
  countRuns(runs: Float64Array, ids: Int32Array, first: number, end: number, perRow: number): void;
}

/** The counter that defines what is counted. */
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

/** The fastest counter that there is: the addon's, where it is built. */
export function idCounter(addon: Addon | undefined = loadAddon()): IdCounter {
  if (addon === undefined) return plainCounter;
  const { countDistinct, countRuns } = addon;
  const counted = new Int32Array(1);
  // The addon checks types alone: with a wrong length it would touch other memory.
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

/** The place of a hash, or of the free slot that it may take. */
export function slotOf(slots: Int32Array, mask: number, hash: number): number {
  // The upper half decides the slot: the lower bits of a sampled hash are all zero.
  let slot = (hash >>> 16) & mask;
  while ((slots[2 * slot + 1] ?? 0) > 0 && slots[2 * slot] !== hash) slot = (slot + 1) & mask;
  return 2 * slot;
}

// What networks of a machine that was measured here are told of a table: what a batch reads and
// writes of it, and what of that lies beyond caches of some sizes. NeuroShard's twenty numbers
// (features.ts) have all of it, but behind products, logarithms and a sort that no network learns
// from some thousand samples.

import { type CostTable, reuseBins } from "../cost-table.ts";
import { windowSamples } from "../reuse.ts";

/** Bytes of the caches: from a core's own to one that many share. */
const cacheBytes = [14, 16, 18, 20, 22, 24, 26].map((bits) => 2 ** bits);
const lineBytes = 64;
/** A thousand: numbers of a batch are told in these. */
const unit = 1000;

/** Numbers of a table. */
export const trafficFeatures = 11 + cacheBytes.length;

/** How often a window looks up a row of each bin: once, twice, then the middle of the bin. */
const lookupsOf = Array.from({ length: reuseBins }, (_, bin) =>
  bin < 2 ? 1 + bin : 0.75 * 2 ** bin,
);

/** The numbers, in thousands but for columns and logarithms, for batches of so many samples. */
export function trafficFeaturesOf(table: CostTable, batchSize: number): number[] {
  const { rows, dim, poolingFactor } = table;
  const ids = poolingFactor * batchSize;
  const groups = groupsOf(table, batchSize);
  const distinct = groups.reduce((sum, own) => sum + own.distinct, 0);
  const lines = Math.max(1, (4 * dim) / lineBytes);
  const counts = [
    ...[ids, ids * dim, ids * lines, ids * Math.log2(1 + ids)],
    ...[distinct, distinct * dim, distinct * lines],
    ...cacheBytes.map((bytes) => lines * idsBeyond(groups, bytes / (lines * lineBytes))),
  ];
  const logarithms = [rows, dim, ids].map((value) => Math.log2(1 + value));
  return [...counts.map((count) => count / unit), dim, ...logarithms];
}

/** Rows of one popularity. */
interface Group {
  /** Of them, that a batch looks up. */
  readonly distinct: number;
  /** Ids of a batch that fall on them. */
  readonly ids: number;
}

/**
 * The most popular first. The bins are shares of the distinct rows of a window, so that its ids
 * tell how many these are; a row that the window looks up c times is missing in a batch of the
 * share s of the window with the probability exp(-c s).
 */
function groupsOf({ poolingFactor, bins }: CostTable, batchSize: number): Group[] {
  const share = batchSize / windowSamples;
  const lookups = bins.reduce((sum, own, bin) => sum + own * (lookupsOf[bin] ?? 0), 0);
  const ofWindow = lookups === 0 ? 0 : (poolingFactor * windowSamples) / lookups;
  const groups = bins.map((own, bin): Group => {
    const each = (lookupsOf[bin] ?? 0) * share;
    return { distinct: -ofWindow * own * Math.expm1(-each), ids: ofWindow * own * each };
  });
  return groups.reverse();
}

/** Ids of a batch whose rows are not among the most popular `room`. */
function idsBeyond(groups: readonly Group[], room: number): number {
  let [left, beyond] = [room, 0];
  for (const { distinct, ids } of groups) {
    const held = Math.min(left, distinct);
    if (distinct > 0) beyond += ids * (1 - held / distinct);
    left -= held;
  }
  return beyond;
}

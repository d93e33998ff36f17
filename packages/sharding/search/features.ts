// The input features of a table for cost networks, standardised by mean and deviation over the
// training tables. The set `published` has NeuroShard's twenty numbers, sorted by their names in
// its published code, so that its bins are in the order of text: 0, 1, 10, … 16, 2, … 9. The set
// `traffic`, for networks that Osiris trains on a calibrated machine, has the reads and writes of a
// batch, and the part of them that misses caches of some sizes: the twenty numbers determine them,
// but by products, logarithms and a sort that a network does not learn from some thousand samples.

import { type CostTable, reuseBins, windowSamples } from "../../../internal.ts";

/**
 * The sets of features: NeuroShard's numbers (`published`), or the reads and writes of a batch
 * (`traffic`).
 */
export const featureSets = ["published", "traffic"] as const;

export type FeatureSet = (typeof featureSets)[number];

/** Number of features of a table in the set `published`. */
export const tableFeatures = reuseBins + 3;

const binOrder = Array.from({ length: reuseBins }, (_, bin) => bin).sort((a, b) =>
  `bin_${a}` < `bin_${b}` ? -1 : 1,
);

/** The features before standardisation: bins, columns, ids of a sample, rows. */
export function rawFeaturesOf({ rows, dim, poolingFactor, bins }: CostTable): number[] {
  return [...binOrder.map((bin) => bins[bin] ?? 0), dim, poolingFactor, rows];
}

export function featureCount(set: FeatureSet): number {
  return set === "published" ? tableFeatures : trafficFeatures;
}

/** Returns the features of a table in a set, for batches of `batchSize` samples. */
export function featuresOf(table: CostTable, set: FeatureSet, batchSize: number): number[] {
  return set === "published" ? rawFeaturesOf(table) : trafficFeaturesOf(table, batchSize);
}

/** Mean and deviation of each input column, by which inputs are standardised. */
export interface Standard {
  readonly mean: readonly number[];
  readonly deviation: readonly number[];
}

/** Added to a deviation, so that a constant column does not divide by 0. */
const least = 1e-6;

/**
 * Computes mean and deviation of at least two rows of equal length. The deviation is the sample
 * deviation (n - 1) plus 1e-6. Both are rounded to float32, the precision of the files.
 */
export function standardOf(rows: readonly (readonly number[])[]): Standard {
  const columns = rows[0]?.length ?? 0;
  const mean: number[] = [];
  const deviation: number[] = [];
  for (let column = 0; column < columns; column++) {
    const values = rows.map((row) => row[column] ?? 0);
    const middle = values.reduce((sum, value) => sum + value, 0) / values.length;
    const squares = values.reduce((sum, value) => sum + (value - middle) ** 2, 0);
    mean.push(Math.fround(middle));
    deviation.push(Math.fround(Math.sqrt(squares / (values.length - 1)) + least));
  }
  return { mean, deviation };
}

/** (values - mean) / deviation */
export function standardised(values: readonly number[], { mean, deviation }: Standard): number[] {
  return values.map((value, i) => (value - (mean[i] ?? 0)) / (deviation[i] ?? 1));
}

// The set `traffic` ----

/** Bytes of the caches: from a core's private cache to a cache shared by many cores. */
const cacheBytes = [14, 16, 18, 20, 22, 24, 26].map((bits) => 2 ** bits);
const lineBytes = 64;
/** Counts of a batch are in thousands. */
const unit = 1000;

/** Number of features of a table in the set `traffic`. */
const trafficFeatures = 11 + cacheBytes.length;

/** Lookups of a row in each bin by a window: 1, 2, then the middle of the bin. */
const lookupsOf = Array.from({ length: reuseBins }, (_, bin) =>
  bin < 2 ? 1 + bin : 0.75 * 2 ** bin,
);

/**
 * Returns the features for batches of `batchSize` samples, in thousands except columns and
 * logarithms.
 */
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
  /** Rows of the group that a batch looks up. */
  readonly distinct: number;
  /** Ids of a batch that refer to rows of the group. */
  readonly ids: number;
}

/**
 * Groups of a table's rows with similar popularity, the most popular group first. Each bin is the
 * share of a window's distinct rows that the window looks up c times, so the window's number of
 * distinct rows follows from its number of lookups. If a batch is the share s of the window, the
 * probability that the batch does not look up such a row is exp(-c s).
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

/** Number of lookups of a batch that miss a cache of the `room` most popular rows. */
function idsBeyond(groups: readonly Group[], room: number): number {
  let [left, beyond] = [room, 0];
  for (const { distinct, ids } of groups) {
    const held = Math.min(left, distinct);
    if (distinct > 0) beyond += ids * (1 - held / distinct);
    left -= held;
  }
  return beyond;
}

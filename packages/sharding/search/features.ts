// The input features of a table for cost networks: twenty numbers, each standardised by its mean
// and deviation over the training tables. They are sorted by their names in NeuroShard's published
// code, so that its bins are in the order of text: 0, 1, 10, … 16, 2, … 9. Networks that Osiris
// trains on a calibrated machine read other features (traffic-features.ts).

import { type CostTable, reuseBins } from "../../../internal.ts";
import { trafficFeatures, trafficFeaturesOf } from "./traffic-features.ts";

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

/** Returns the number of features in a set. */
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

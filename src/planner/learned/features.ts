// What a cost network is told of a table: twenty numbers, each less its mean over the tables that
// the network was trained with, over their deviation. Sorted by the names that NeuroShard's
// published code gives them, so that its bins stand as text does: 0, 1, 10, … 16, 2, … 9. Networks
// of a machine that was measured here are told others (traffic-features.ts).

import { type CostTable, reuseBins } from "../cost-table.ts";
import { trafficFeatures, trafficFeaturesOf } from "./traffic-features.ts";

/** What a network is told of a table: NeuroShard's numbers, or what a batch reads and writes. */
export const featureSets = ["published", "traffic"] as const;

export type FeatureSet = (typeof featureSets)[number];

/** Numbers of a table. */
export const tableFeatures = reuseBins + 3;

const binOrder = Array.from({ length: reuseBins }, (_, bin) => bin).sort((a, b) =>
  `bin_${a}` < `bin_${b}` ? -1 : 1,
);

/** The numbers as they are: bins, columns, ids of a sample, rows. */
export function rawFeaturesOf({ rows, dim, poolingFactor, bins }: CostTable): number[] {
  return [...binOrder.map((bin) => bins[bin] ?? 0), dim, poolingFactor, rows];
}

/** Numbers of a table in such a set. */
export function featureCount(set: FeatureSet): number {
  return set === "published" ? tableFeatures : trafficFeatures;
}

/** What networks with these features, of batches of so many samples, are told of a table. */
export function featuresOf(table: CostTable, set: FeatureSet, batchSize: number): number[] {
  return set === "published" ? rawFeaturesOf(table) : trafficFeaturesOf(table, batchSize);
}

/** Mean and deviation of each column of some inputs. */
export interface Standard {
  readonly mean: readonly number[];
  readonly deviation: readonly number[];
}

/** What is added to a deviation, so that a column of one value has one. */
const least = 1e-6;

/**
 * Of at least two rows of one length; the deviation is that of a sample (n - 1), and 1e-6. Both are
 * rounded to float32, as files have them.
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

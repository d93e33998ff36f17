// Tables as input of a placement policy, and tasks: some tables, and the devices to place them on.
//
// N = tables of the pool, X = features of a table (21).

import type { CostTable, Kernels, RandomStream, Tensor } from "../../../internal.ts";
import type { DeviceCosts } from "../search/cost-networks.ts";
import {
  rawFeaturesOf,
  type Standard,
  standardised,
  standardOf,
  tableFeatures,
} from "../search/features.ts";
import type { DeviceRoom, TablesOfDevices } from "../search/greedy.ts";

/** Number of features of a table: those of a cost network, and its bytes. */
export const policyFeatures = tableFeatures + 1;

/** A table, and the bytes of its weights as they are stored. */
export interface SizedTable extends CostTable {
  readonly bytes: number;
}

/** Tables of a pool, by index, and the devices they are placed on. */
export interface PlacementTask {
  readonly tables: readonly number[];
  readonly room: DeviceRoom;
}

/** Training data of a policy: a pool of tables, and tasks over it with equal numbers of devices. */
export interface PolicySubject {
  readonly tables: readonly SizedTable[];
  readonly tasks: readonly PlacementTask[];
  /** Measures the costs of the devices of a plan, with tables of the pool by index. */
  readonly measure: (placed: TablesOfDevices) => readonly DeviceCosts[];
}

/**
 * Computes the standardisation of a pool. A constant column gets the deviation 1: it has no
 * information, and tables outside the pool may have other values.
 */
export function policyStandardOf(tables: readonly SizedTable[]): Standard {
  const { mean, deviation } = standardOf(tables.map(numbersOf));
  return { mean, deviation: deviation.map((own) => (own < constantMax ? 1 : own)) };
}

/** Deviations of constant columns are below this limit, as `standardOf` adds 1e-6. */
const constantMax = 2e-6;

/** Returns the standardised features (N,X) of tables. */
export function poolFeatures(
  kernels: Kernels,
  tables: readonly SizedTable[],
  standard: Standard,
): Tensor {
  const features = kernels.tensor([tables.length, policyFeatures]);
  const values = tables.flatMap((table) => standardised(numbersOf(table), standard));
  kernels.write(features, Float32Array.from(values));
  return features;
}

function numbersOf(table: SizedTable): number[] {
  return [...rawFeaturesOf(table), table.bytes / 2 ** 30];
}

/** Draws `count` different indices below `of`, or all indices if there are fewer. */
export function dealt(of: number, count: number, random: RandomStream): number[] {
  const all = Array.from({ length: of }, (_, i) => i);
  for (let i = 0; i < Math.min(count, of); i++) {
    const j = i + random.below(of - i);
    [all[i], all[j]] = [all[j] as number, all[i] as number];
  }
  return all.slice(0, count);
}

/** Draws one of the items, of which there is at least one. */
export function drawn<T>(items: readonly T[], random: RandomStream): T {
  return items[random.below(items.length)] as T;
}

// Tables as a placement policy sees them, and a task: some of them, and the devices to place them
// on.
//
// N = tables of the pool, X = numbers of a table (21).

import type { RandomStream } from "../../ports/random.ts";
import type { CostTable } from "../cost-table.ts";
import type { DeviceCosts } from "../learned/cost-networks.ts";
import {
  rawFeaturesOf,
  type Standard,
  standardised,
  standardOf,
  tableFeatures,
} from "../learned/features.ts";
import type { DeviceRoom, TablesOfDevices } from "../learned/greedy.ts";

/** Numbers of a table: those of a cost network, and its size. */
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

/** What a policy is trained with: tasks of one number of devices, of tables of a pool. */
export interface PolicySubject {
  readonly tables: readonly SizedTable[];
  readonly tasks: readonly PlacementTask[];
  /** What the devices of a plan cost. Tables are those of the pool, by index. */
  readonly measure: (placed: TablesOfDevices) => readonly DeviceCosts[];
}

/** A column of one value has the deviation 1: it tells nothing, and other tables may differ. */
export function policyStandardOf(tables: readonly SizedTable[]): Standard {
  const { mean, deviation } = standardOf(tables.map(numbersOf));
  return { mean, deviation: deviation.map((own) => (own < constantMax ? 1 : own)) };
}

/** `standardOf` adds 1e-6 to a deviation. */
const constantMax = 2e-6;

/** (N,X), row by row. */
export function poolFeatures(tables: readonly SizedTable[], standard: Standard): Float32Array {
  return Float32Array.from(tables.flatMap((table) => standardised(numbersOf(table), standard)));
}

function numbersOf(table: SizedTable): number[] {
  return [...rawFeaturesOf(table), table.bytes / 2 ** 30];
}

/** Different indices below `of`: `count`, or all where there are fewer. */
export function dealt(of: number, count: number, random: RandomStream): number[] {
  const all = Array.from({ length: of }, (_, i) => i);
  for (let i = 0; i < Math.min(count, of); i++) {
    const j = i + random.below(of - i);
    [all[i], all[j]] = [all[j] as number, all[i] as number];
  }
  return all.slice(0, count);
}

// Dynamic ids in a step. When bags arrive, the device that holds the rows maps dynamic ids to rows.
// At fixed steps it evicts some ids from their rows.
//
// Invariants
//   I1. Eviction comes first in its step, when no batch of a later step is staged: the pipeline is
//       empty. The map from ids to rows therefore depends on the batches alone.
//   I2. A cut at an eviction step holds the state before the eviction: a run that continues from
//       the cut repeats the eviction.

import type { IdCounts } from "../../embedding/dynamic-ids/id-block.ts";
import { type FindRow, isEvictionStep, ShardIds } from "../../embedding/dynamic-ids/shard-ids.ts";
import type { RowStore } from "../../embedding/rows/row-store.ts";
import type { Key } from "../../ports/random.ts";
import { type Topology, tableOf } from "../topology/topology.ts";
import type { StepPlan } from "./step-plan.ts";

/** The part of a device that dynamic ids need. */
export interface DynamicIdsDevice {
  readonly topology: Topology;
  /**
   * For each shard of the slab, the map from dynamic ids to rows; undefined where ids are row
   * numbers.
   */
  readonly ids: readonly (ShardIds | undefined)[];
  /** The slab from which rows of evicted ids are removed. */
  readonly slab: Pick<RowStore, "evict">;
}

/**
 * Creates the map from dynamic ids to rows of each shard that a device pools; undefined where ids
 * are row numbers.
 */
export function createShardIds(
  { heldBy, input }: Topology,
  rank: number,
  key: Key,
): (ShardIds | undefined)[] {
  return (heldBy[rank] ?? []).map((shard) => {
    const spec = tableOf(input.model.tables, shard.table);
    return spec.dynamic && new ShardIds(shard, spec, spec.dynamic, key);
  });
}

/**
 * For each lookup in the slab, the function from ids of a batch to rows; in training it also admits
 * new ids. Undefined, or left out at the end, where ids are row numbers.
 */
export function findersOf(
  { ids, topology, rank }: Pick<DynamicIdsDevice, "ids" | "topology"> & { readonly rank: number },
  { step, isTraining }: StepPlan,
): (FindRow | undefined)[] {
  if (ids.every((own) => own === undefined)) return [];
  return (topology.heldBy[rank] ?? []).flatMap(({ lookups }, place) => {
    const own = ids[place];
    return lookups.map(() => (isTraining ? own?.admitting(step) : own?.reading));
  });
}

/**
 * Evicts ids and their rows before `step`. The caller makes sure that no batch is in flight (I1).
 */
export async function evictIds(
  { ids, slab, topology }: DynamicIdsDevice,
  step: number,
): Promise<void> {
  const { tables } = topology.input.model;
  for (const [at, own] of ids.entries()) {
    if (own === undefined || !isEvictionStep(tableOf(tables, own.shard.table), step)) continue;
    const rows = own.evict(step);
    if (rows.length > 0) await slab.evict(at, rows);
  }
}

/** Counts of each table's dynamic ids by their fate (id-block.ts). */
export type TableIdCounts = Readonly<Record<keyof IdCounts, readonly number[]>>;

/** Returns the counts of this device since the generation began. */
export function idCountsOf({
  ids,
  topology,
}: Pick<DynamicIdsDevice, "ids" | "topology">): TableIdCounts {
  const of = (name: keyof IdCounts) => {
    const sums = topology.input.model.tables.map(() => 0);
    for (const own of ids) {
      if (own !== undefined)
        sums[own.shard.table] = (sums[own.shard.table] ?? 0) + own.counts[name];
    }
    return sums;
  };
  return { admitted: of("admitted"), evicted: of("evicted"), dropped: of("dropped") };
}

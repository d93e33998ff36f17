// Dynamic ids in a step. As bags arrive, the device that holds the rows turns dynamic ids into
// rows. At fixed steps some ids lose their rows.
//
// Invariants
//   I1. Eviction is the first thing of its step, and no batch of a later step is staged yet: the
//       pipeline is empty. So which id has which row follows from the batches alone.
//   I2. A cut at an eviction step holds the state before it: a run that goes on from the cut evicts
//       it.

import { isEvictionStep } from "../../embedding/dynamic-ids/eviction-steps.ts";
import type { IdCounts } from "../../embedding/dynamic-ids/id-block.ts";
import { type FindRow, ShardIds } from "../../embedding/dynamic-ids/shard-ids.ts";
import type { RowStore } from "../../embedding/rows/row-store.ts";
import type { Key } from "../../ports/random.ts";
import { type Topology, tableOf } from "../topology/topology.ts";
import type { StepPlan } from "./step-plan.ts";

/** What dynamic ids need of a device. */
export interface DynamicIdsDevice {
  readonly topology: Topology;
  /** For each shard of the slab, which dynamic id has which row; undefined where ids are rows. */
  readonly ids: readonly (ShardIds | undefined)[];
  /** Where evicted ids lose their rows. */
  readonly slab: Pick<RowStore, "evict">;
}

/** For each shard that a device pools, its ids; undefined where they are rows. */
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

/** For each lookup in the slab, how the ids of a batch find their rows. Its bags have arrived. */
export function findersOf(
  { ids, topology, rank }: Pick<DynamicIdsDevice, "ids" | "topology"> & { readonly rank: number },
  { step, isTraining }: StepPlan,
): (FindRow | undefined)[] {
  return (topology.heldBy[rank] ?? []).flatMap(({ lookups }, place) => {
    const own = ids[place];
    return lookups.map(() => (isTraining ? own?.admitting(step) : own?.reading));
  });
}

/** Evicts the rows that ids lose before `step`. No batch is in flight. */
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

/** The counts of this device since the generation began. */
export function idCountsOf({
  ids,
  topology,
}: Pick<DynamicIdsDevice, "ids" | "topology">): TableIdCounts {
  const of = (name: keyof IdCounts) =>
    topology.input.model.tables.map((_, table) => {
      const own = ids.filter((shardIds) => shardIds?.shard.table === table);
      return own.reduce((sum, shardIds) => sum + (shardIds?.counts[name] ?? 0), 0);
    });
  return { admitted: of("admitted"), evicted: of("evicted"), dropped: of("dropped") };
}

// The backing store of a test's devices: records in this process's memory.

import type { BackingStore } from "../../../src/embedding/rows/backing-store.ts";
import type { Recipe } from "../../../src/training/step/device-state.ts";
import type { Topology } from "../../../src/training/topology/topology.ts";
import { createInlineTiers } from "../../../storage/tiers/inline-tiers.ts";
import { createMemoryRecords } from "../../../storage/tiers/records/memory-records.ts";
import { recordShardsOf, tierRingOf } from "../../../storage/tiers/shape.ts";

/** The backing store of one device; undefined if all its rows are in memory. */
export function belowOf(
  topology: Topology,
  rank: number,
  recipe: Recipe,
): BackingStore | undefined {
  const shape = tierRingOf(topology, rank, recipe.optimizer.sparse);
  if (shape === undefined) return undefined;
  const store = createMemoryRecords({ shards: recordShardsOf(topology, rank, shape) });
  return createInlineTiers(store, shape);
}

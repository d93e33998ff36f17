// The backing store of a test's devices: records in this process's memory.

import type { BackingStore } from "../../../src/embedding/rows/backing-store.ts";
import { createSoloCells } from "../../../src/exchange/cells.ts";
import type { Recipe } from "../../../src/training/step/device-state.ts";
import type { Topology } from "../../../src/training/topology/topology.ts";
import { createCarrier } from "../../../storage/tiers/carry-out.ts";
import { createMemoryRecords } from "../../../storage/tiers/records/memory-records.ts";
import type { RecordStore } from "../../../storage/tiers/records/record-store.ts";
import { createBackingStore, createTierEnd, tierRingCells } from "../../../storage/tiers/ring.ts";
import { type TierRingShape, tierRingBytes } from "../../../storage/tiers/ring-slots.ts";
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

/**
 * A device's backing store over `store`, whose shards are those of the shape, in order. The
 * device's own thread executes each request when it is posted; in a cluster, a tier thread does.
 */
function createInlineTiers(store: RecordStore, shape: TierRingShape): BackingStore {
  const memory = new ArrayBuffer(tierRingBytes(shape));
  const cells = createSoloCells(tierRingCells);
  const place = { shape, memory, cells, cellBase: 0, peer: 0 };
  const end = createTierEnd(place);
  const carry = createCarrier(store);
  return createBackingStore(place, () => {
    const request = end.next();
    if (request !== undefined) carry(request);
    end.done(0);
  });
}

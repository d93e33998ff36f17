// Bytes that a shard makes the devices send in one step: the table of papers.md 1.2, added up over
// all devices. What a device sends to itself is not counted.

import type { Setting } from "./cost.ts";
import { columnsOf, deviceCount, type PlacedShard, type PlannedTable } from "./shards.ts";

/** Bytes of a step, over all devices. */
export interface Traffic {
  /** Ids and lengths, to the shards. */
  readonly input: number;
  /** Pooled vectors, back. */
  readonly forward: number;
  /** Gradients: of pooled vectors, or of a replicated table. */
  readonly backward: number;
}

/** What one shard moves; all copies of it, where the table is replicated. */
export function trafficOf(
  { workload, devices, constants }: Setting,
  table: PlannedTable,
  shard: PlacedShard,
): Traffic {
  const W = deviceCount(devices);
  const { hosts: N, perHost: L } = devices;
  const b = workload.batchSize / W;
  const { idBytes, lengthBytes, forwardBytes, backwardBytes } = constants;
  if (shard.scheme === "data-parallel") {
    const bytes = table.rows * table.dim * table.weightBytes;
    return { input: 0, forward: 0, backward: 2 * (W - 1) * bytes };
  }
  const ids = (table.poolingFactor * shard.blocks) / table.rowBlocks;
  const input = (W - 1) * b * (ids * idBytes + lengthBytes);
  const isHierarchical = shard.scheme === "table-row-wise" || shard.scheme === "grid";
  const vectors = isHierarchical ? ((L - 1) / L) * W * b + (N - 1) * b : (W - 1) * b;
  const elements = vectors * columnsOf(table, shard);
  return { input, forward: elements * forwardBytes, backward: elements * backwardBytes };
}

/** Bytes of adding up the dense layers' gradients, over all devices. */
export function denseTraffic({ workload, devices }: Setting): number {
  return 2 * (deviceCount(devices) - 1) * workload.denseParameters * 4;
}

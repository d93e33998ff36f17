// Bytes that devices send for a shard in one step, summed over all devices: the volumes of Neo's
// four kinds of parallelism (Mudigere et al., arXiv 2104.05158). Bytes from a device to itself do
// not count. W = devices, L = devices of a host, N = hosts, b = samples of a device.

import {
  deviceCount,
  type PlacedShard,
  type Plan,
  type PlannedTable,
  tileColumns,
} from "../shards.ts";
import { allReduceTraffic, gradientShare } from "./all-reduce.ts";
import type { Setting } from "./cost.ts";
import { rowShare } from "./row-shares.ts";

/** Bytes sent in a step, over all devices. */
export interface Traffic {
  /** Ids and lengths, to the shards. */
  readonly input: number;
  /** Pooled vectors, from the shards. */
  readonly forward: number;
  /** Gradients: of pooled vectors, or of a replicated table. */
  readonly backward: number;
  /** The part of all these bytes that is sent between hosts. */
  readonly acrossHosts: number;
}

/**
 * Returns the bytes sent for one shard, copies included if the table is replicated. `sharers`:
 * devices of its host with rows of the same columns, its own device included (`sharersOf`).
 */
export function trafficOf(
  { workload, devices, constants }: Setting,
  table: PlannedTable,
  shard: PlacedShard,
  sharers: number,
): Traffic {
  const W = deviceCount(devices);
  const { hosts: N, perHost: L } = devices;
  const b = workload.batchSize / W;
  const { idBytes, lengthBytes, forwardBytes, backwardBytes } = constants;
  if (shard.scheme === "data-parallel") {
    const { all, acrossHosts } = allReduceTraffic(
      devices,
      table.rows * table.dim * table.weightBytes,
    );
    return { input: 0, forward: 0, backward: all, acrossHosts };
  }
  const ids = table.poolingFactor * rowShare(table, shard, table.idShares);
  const { lookups = 1 } = table;
  const input = b * (ids * idBytes + lookups * lengthBytes);
  // Copies of the vectors of b samples that are sent. The sharers share the role of the aggregator
  // to other hosts evenly; a shard on another device sends its vectors to the aggregator. With L
  // sharers that is (L-1)/L W inside and N-1 across.
  const across = ((N - 1) * L) / sharers;
  const inside = L - 1 + (sharers - 1) * across;
  const vector = b * lookups * tileColumns(table, shard);
  const vectors = (inside + across) * vector;
  return {
    input: (W - 1) * input,
    forward: vectors * forwardBytes,
    backward: vectors * backwardBytes,
    acrossHosts: (W - L) * input + across * vector * (forwardBytes + backwardBytes),
  };
}

/**
 * Returns a function that counts, for a shard of the plan, the devices of its host with rows of the
 * same columns.
 */
export function sharersOf({ devices, shards }: Plan): (shard: PlacedShard) => number {
  const keyOf = ({ table, firstQuantum, quanta, device }: PlacedShard) => {
    const host = device === "all" ? device : Math.floor(device / devices.perHost);
    return `${firstQuantum},${quanta},${host},${table}`;
  };
  const sharers = new Map<string, Set<number | "all">>();
  for (const shard of shards) {
    const key = keyOf(shard);
    sharers.set(key, (sharers.get(key) ?? new Set()).add(shard.device));
  }
  return (shard) => sharers.get(keyOf(shard))?.size ?? 1;
}

/** Bytes of the all-reduce of the dense layers' gradients, over all devices; and between hosts. */
export function denseTraffic({ workload, devices }: Setting) {
  const { all, acrossHosts } = allReduceTraffic(devices, workload.denseParameters * 4);
  const sent = acrossHosts * gradientShare(workload, devices);
  return { all: all - acrossHosts + sent, acrossHosts: sent };
}

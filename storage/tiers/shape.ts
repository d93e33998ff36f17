// The shape of a device's tiers: its cached shards, the record size of each, and the number of
// requests in flight. The device and its tier thread compute the same shape.

import type { SparseOptimizerSpec } from "../../src/embedding/tables/options.ts";
import { rowStateWidth } from "../../src/embedding/tables/row-state.ts";
import { recordBytesOf } from "../../src/kernels/contract/records.ts";
import type { HeldShard } from "../../src/training/topology/held-shard.ts";
import {
  prefetchOf,
  type Topology,
  tableOf,
  tableRoomsOf,
} from "../../src/training/topology/topology.ts";
import type { TierRingShape } from "./ring-slots.ts";
import type { TierRecordShard } from "./tier-store.ts";

/** The shards of a device with a backing store. */
export function shardsBelow({ heldBy, distinctBy }: Topology, rank: number): HeldShard[] {
  const own = [heldBy, distinctBy].flatMap((by) => by[rank] ?? []);
  return own.filter(({ tier }) => tier === "cached");
}

/** The shape of a device's ring; undefined where all its rows are in device memory. */
export function tierRingOf(
  topology: Topology,
  rank: number,
  optimizer: SparseOptimizerSpec,
): TierRingShape | undefined {
  const own = shardsBelow(topology, rank);
  if (own.length === 0) return undefined;
  const { batchSize, model } = topology.input;
  const rooms = tableRoomsOf(topology, batchSize);
  const shards = own.map(({ shard, table, rows, columns }) => {
    const { precision, rows: tableRows } = tableOf(model.tables, table);
    const width = rowStateWidth(optimizer, columns);
    return {
      shard,
      recordBytes: recordBytesOf({ dim: columns, precision }, width),
      rows,
      // Shards with different rows of a table divide its ids.
      rowsMax: Math.min(rows, Math.ceil(((rooms[table] ?? 0) * rows) / tableRows)),
    };
  });
  // For each batch in flight, the main slab and each slab of distinct rows stage rows in a request
  // of their own. One further slot lets rows go down at the same time, and one is being written.
  const slabs = 1 + (topology.distinctBy[rank]?.length ?? 0);
  return { shards, slots: (1 + prefetchOf(topology)) * slabs + 2 };
}

/** The same shards, in the form that a record store takes. */
export function recordShardsOf(
  topology: Topology,
  rank: number,
  { shards }: TierRingShape,
): TierRecordShard[] {
  const { tables } = topology.input.model;
  return shardsBelow(topology, rank).map(({ table, cache, ...shard }, at) => {
    const { name, firstBlock, firstColumn, rows } = shard;
    const { recordBytes = 0, rowsMax = 0 } = shards[at] ?? {};
    const plannedBytes = cache?.ddrBytes;
    const place = `${name}-b${firstBlock}-c${firstColumn}`;
    const own = firstBlock + firstColumn === 0 ? name : place;
    const { keep } = tableOf(tables, table);
    return { name: own, rows, recordBytes, rowsMax, plannedBytes, keep };
  });
}

/** The devices with rows of durable tables in their backing stores. */
export function durableRanks(topology: Topology): number[] {
  const { tables } = topology.input.model;
  const isDurable = ({ table }: HeldShard) => tableOf(tables, table).keep === "durable";
  const ranks = Array.from({ length: topology.devices }, (_, rank) => rank);
  return ranks.filter((rank) => shardsBelow(topology, rank).some(isDurable));
}

// Cache sizes of cached shards: their demands on device memory, and the shapes of their caches.

import {
  type CacheDemand,
  type CacheShape,
  cacheShapesOf,
  indexBytes,
} from "../../embedding/rows/cache-sizes.ts";
import type { SparseOptimizerSpec } from "../../embedding/tables/options.ts";
import { rowStateWidth } from "../../embedding/tables/row-state.ts";
import type { Shard } from "../../embedding/tables/shards.ts";
import { packedBytes } from "../../kernels/contract/precision.ts";
import type { HeldShard } from "./held-shard.ts";
import { type Topology, tableOf, tableRoomsOf } from "./topology.ts";

/**
 * Returns the cached shards of a device, in the order of its slabs, with the demands on each cache.
 */
export function cacheDemandsOf(
  topology: Topology,
  rank: number,
  optimizer: SparseOptimizerSpec,
): (CacheDemand & { readonly shard: HeldShard })[] {
  const { input, heldBy, distinctBy } = topology;
  const shards = [heldBy, distinctBy].flatMap((by) => by[rank] ?? []);
  const cached = shards.filter(({ tier }) => tier === "cached");
  const rooms = cached.length === 0 ? [] : tableRoomsOf(topology, input.batchSize);
  return cached.map((shard) => {
    const { precision } = tableOf(input.model.tables, shard.table);
    const state = 4 * rowStateWidth(optimizer, shard.columns);
    return {
      shard,
      placeBytes: indexBytes + packedBytes(1, shard.columns, precision) + state,
      lookupsMax: rooms[shard.table] ?? 0,
      plannedBytes: shard.cache?.hbmBytes,
    };
  });
}

/** Returns the shape of each cached shard's cache in device memory. */
export function cachesOf(
  topology: Topology,
  rank: number,
  optimizer: SparseOptimizerSpec,
): (shard: Shard) => CacheShape {
  const { tiers } = topology.input;
  if (tiers === undefined) throw new RangeError("The topology has no tiers");
  const demands = cacheDemandsOf(topology, rank, optimizer);
  const shapes = cacheShapesOf(demands, tiers);
  const shapeOf = new Map(demands.map(({ shard }, i) => [shard.shard, shapes[i]]));
  return ({ shard, name }) => {
    const shape = shapeOf.get(shard);
    if (shape === undefined)
      throw new RangeError(`${name} is not behind a cache on device ${rank}`);
    return shape;
  };
}

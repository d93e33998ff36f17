// Sizes the caches of a device: shares its memory budget among its cached shards (docs/memory.md).

import { cacheWays } from "../../kernels/contract/row-cache.ts";
import type { Shard } from "../tables/shards.ts";
import type { CachePolicy, TiersSpec } from "../tables/tier-options.ts";

/** The size of a shard's cache, and its eviction policy. */
export interface CacheShape {
  /** Sets of 32 slots each. */
  readonly sets: number;
  /** Spare slots, for rows whose set has only pinned rows; unused spares cost nothing. */
  readonly spares: number;
  readonly policy: CachePolicy;
}

/** Inputs to the share of a shard. */
export interface CacheDemand {
  readonly shard: Pick<Shard, "rows">;
  /** Bytes of one row with its state and its index entry. */
  readonly placeBytes: number;
  /** Most lookups of a usual batch (src/data/ids-room.ts). */
  readonly lookupsMax: number;
  /** Bytes that the plan gives this cache. Used if the plan gives bytes to every cache. */
  readonly plannedBytes?: number | undefined;
}

/** Bytes of a slot's index entry: its row, last access and pin count. */
export const indexBytes = 10;

/** Bytes of a spare slot in the index: its row, last access, pin count, and place in two lists. */
export const spareBytes = indexBytes + 4 + 16;

/**
 * The cache sizes of a device's shards, in order. Bytes are in proportion to the planned bytes, or
 * without a plan to the bytes that a batch looks up. No cache is larger than its shard: the surplus
 * is shared among the other shards. Each cache has at least one set.
 */
export function cacheShapesOf(
  demands: readonly CacheDemand[],
  { hbmBytes, policy, prefetch }: Pick<TiersSpec, "hbmBytes" | "policy" | "prefetch">,
): CacheShape[] {
  const setsMax = demands.map(({ shard }) => Math.max(1, Math.ceil(shard.rows / cacheWays)));
  const isPlanned = demands.every(({ plannedBytes = 0 }) => plannedBytes > 0);
  const sets = demands.map(() => 0);
  let open = [...demands.keys()];
  let left = hbmBytes;
  for (;;) {
    const weightOf = (i: number) => {
      const { lookupsMax = 0, placeBytes = 0, plannedBytes = 0 } = demands[i] ?? {};
      return isPlanned ? plannedBytes : Math.max(1, lookupsMax) * placeBytes;
    };
    const whole = open.reduce((sum, i) => sum + weightOf(i), 0);
    const setsFor = (i: number) => {
      return Math.floor((left * weightOf(i)) / whole / (cacheWays * (demands[i]?.placeBytes ?? 1)));
    };
    const full = open.filter((i) => setsFor(i) >= (setsMax[i] ?? 1));
    for (const i of full.length > 0 ? full : open) {
      sets[i] = Math.max(1, Math.min(setsMax[i] ?? 1, setsFor(i)));
    }
    if (full.length === 0 || full.length === open.length) break;
    for (const i of full) left -= (sets[i] ?? 0) * cacheWays * (demands[i]?.placeBytes ?? 0);
    open = open.filter((i) => !full.includes(i));
  }
  return demands.map(({ shard, lookupsMax }, i) => ({
    sets: sets[i] ?? 1,
    spares: Math.min(shard.rows, (prefetch + 1) * lookupsMax),
    policy,
  }));
}

// How much of each cached shard lies in device memory: the budget of a device, shared out among
// them (docs/memory.md).

import type { Shard } from "../tables/shards.ts";
import type { CachePolicy, TiersSpec } from "../tables/tier-options.ts";

/** How much of a shard lies in device memory, and which of it stays. */
export interface CacheShape {
  /** Sets of 32 places each. */
  readonly sets: number;
  /** Places behind them, for rows whose set is full of pinned ones; unused ones cost nothing. */
  readonly spares: number;
  readonly policy: CachePolicy;
}

/** What the share of a shard depends on. */
export interface CacheDemand {
  readonly shard: Pick<Shard, "rows">;
  /** Bytes of one row with its state, and of its place in the index. */
  readonly placeBytes: number;
  /** Most lookups of a batch. */
  readonly lookupsMax: number;
  /** Bytes that a plan gives its cache, of what it gives all: shares are in that proportion. */
  readonly plannedBytes?: number | undefined;
}

/** Bytes that the index of a cache takes for a place: its row, when it was asked for, its pins. */
export const indexBytes = 10;

const ways = 32;

/**
 * The caches of a device's shards, in their order: bytes in proportion to those that a plan gives
 * each, or else to what a batch looks up of it; and no more than all its rows: what one cannot use
 * goes to the others. At least one set.
 */
export function cacheShapesOf(
  demands: readonly CacheDemand[],
  { hbmBytes, policy, prefetch }: Pick<TiersSpec, "hbmBytes" | "policy" | "prefetch">,
): CacheShape[] {
  const setsMax = demands.map(({ shard }) => Math.max(1, Math.ceil(shard.rows / ways)));
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
      return Math.floor((left * weightOf(i)) / whole / (ways * (demands[i]?.placeBytes ?? 1)));
    };
    const full = open.filter((i) => setsFor(i) >= (setsMax[i] ?? 1));
    for (const i of full.length > 0 ? full : open) {
      sets[i] = Math.max(1, Math.min(setsMax[i] ?? 1, setsFor(i)));
    }
    if (full.length === 0 || full.length === open.length) break;
    for (const i of full) left -= (sets[i] ?? 0) * ways * (demands[i]?.placeBytes ?? 0);
    open = open.filter((i) => !full.includes(i));
  }
  return demands.map(({ shard, lookupsMax }, i) => ({
    sets: sets[i] ?? 1,
    spares: Math.min(shard.rows, (prefetch + 1) * lookupsMax),
    policy,
  }));
}

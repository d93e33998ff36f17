// What a job says about memory below its tables, and how much of each lies in device memory: the
// budget of a device, shared out among its cached shards (docs/memory.md).

import { z } from "zod";
import type { Shard } from "./shards.ts";

export const cachePolicies = ["lru", "lfu"] as const;

export type CachePolicy = (typeof cachePolicies)[number];

/** Tiers of rows that are not all in device memory: it changes speed, and no bit. */
export const tiersOptions = z.strictObject({
  /** Device memory for rows of cached tables, of each device: the HBM tier. */
  hbmBytes: z
    .int()
    .min(1)
    .default(256 * 2 ** 20),
  /** Host memory for rows below it, of each device: the DDR tier. */
  ddrBytes: z
    .int()
    .min(0)
    .default(2 ** 30),
  /** What holds all rows below that: RocksDB, or a flat file with a place for every row. */
  ssd: z.enum(["file", "rocksdb"]).default("file"),
  /** Where; left out, `tiers` in the checkpoint directory. */
  directory: z.string().min(1).optional(),
  /** Which rows make room: those asked for longest ago, or those asked for least. */
  policy: z.enum(cachePolicies).default("lru"),
  /** How many batches ahead rows come up, while others compute. 0: in their own step. */
  prefetch: z.int().min(0).max(8).default(1),
});

export type TiersOptions = z.input<typeof tiersOptions>;
export type TiersSpec = z.output<typeof tiersOptions>;

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

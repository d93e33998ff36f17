// What a job says about memory below its tables, and how much of each lies in device memory: the
// budget of a device, shared out among its cached shards (docs/memory.md).

import { z } from "zod";

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

// Options of the memory tiers behind cached tables. The budgets of a device are shared among its
// cached shards (docs/memory.md).

import { z } from "zod";
import { pathOption } from "../../ports/option-schemas.ts";

export const cachePolicies = ["lru", "lfu"] as const;

export type CachePolicy = (typeof cachePolicies)[number];

/** Tiers of rows that are not all in device memory. They change speed, and no bit. */
export const tiersOptions = z.strictObject({
  /** Device memory for rows of cached tables, on each device: the HBM tier. */
  hbmBytes: z
    .int()
    .min(1)
    .default(256 * 2 ** 20),
  /** Host memory behind it for rows, for each device: the DDR tier. */
  ddrBytes: z
    .int()
    .min(0)
    .default(2 ** 30),
  /**
   * The store of all rows behind host memory: RocksDB, or a flat file with a fixed position for
   * every row. `auto`: the store that has the run's durable rows; without any, RocksDB where this
   * machine has its binary, else files.
   */
  ssd: z.enum(["auto", "file", "rocksdb"]).default("auto"),
  /** Its directory; left out: `tiers` in the checkpoint directory. */
  directory: pathOption("kept", z.string().min(1)).optional(),
  /**
   * How long a run on one host waits for room when its disk is full, in milliseconds. On several
   * hosts it is half a step deadline, as the other hosts wait for the step.
   */
  diskFullWaitMs: z.int().min(0).max(86_400_000).default(240_000),
  /** Which rows are evicted: the least recently used, or the least frequently used. */
  policy: z.enum(cachePolicies).default("lru"),
  /** How many batches ahead rows are fetched, while others compute. 0: in their own step. */
  prefetch: z.int().min(0).max(8).default(1),
});

export type TiersOptions = z.input<typeof tiersOptions>;
export type TiersSpec = z.output<typeof tiersOptions>;

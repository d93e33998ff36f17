// Options of the memory tiers behind cached tables. The budgets of a device are shared among its
// cached shards (docs/memory.md).

import { z } from "zod";
import { isPlainPath } from "../../ports/object-store.ts";
import { pathOption } from "../../ports/option-schemas.ts";

export const cachePolicies = ["lru", "lfu"] as const;

export type CachePolicy = (typeof cachePolicies)[number];

/** Options of the tiers behind device memory. They change the speed, and no bit of the model. */
export const tiersOptions = z.strictObject({
  hbmBytes: z
    .int()
    .min(1)
    .default(256 * 2 ** 20)
    .describe("Bytes of device memory for rows of cached tables, on each device."),
  ddrBytes: z
    .int()
    .min(0)
    .default(2 ** 30)
    .describe("Bytes of host memory for rows of cached tables, for each device; 0: none."),
  ssd: z
    .enum(["auto", "file", "rocksdb", "none"])
    .default("auto")
    .describe(
      "Backing store for all rows of cached tables: `rocksdb`, or `file`, a flat file with a place for every row; or `none`: host memory alone, of any size, without a disk. `auto`: RocksDB if this machine has its binary, else files. A run with durable rows continues in the store that has them; naming the other store is an error. Changes no bit.",
    ),
  directory: pathOption(
    "kept",
    z.string().min(1).refine(isPlainPath, { error: "a directory of the host" }),
  )
    .optional()
    .describe(
      'Directory of the backing store. Left out: `tiers` in the checkpoint directory. Its files are deleted when the run ends, except those of tables with `keep: "durable"`.',
    ),
  diskFullWaitMs: z
    .int()
    .min(0)
    .max(86_400_000)
    .default(240_000)
    .describe(
      "Milliseconds that a run on one host waits for free space when the disk of its tiers or checkpoints is full; no step deadline ends the run during the wait. On several hosts, the wait is half of `stepDeadlineMs`.",
    ),
  policy: z
    .enum(cachePolicies)
    .default("lru")
    .describe(
      "Which rows a full cache evicts: the least recently used (`lru`) or the least frequently used (`lfu`).",
    ),
  prefetch: z
    .int()
    .min(0)
    .max(8)
    .default(1)
    .describe(
      "Number of batches by which rows are fetched ahead, during the computation of earlier batches; 0: in the batch's own step.",
    ),
});

export type TiersSpec = z.output<typeof tiersOptions>;

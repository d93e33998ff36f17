// Options of the memory tiers behind cached tables. The budgets of a device are shared among its
// cached shards (docs/memory.md).

import { z } from "zod";
import { pathOption } from "../../ports/option-schemas.ts";

export const cachePolicies = ["lru", "lfu"] as const;

export type CachePolicy = (typeof cachePolicies)[number];

/** Options of the tiers behind device memory. They change the speed, and no bit of the model. */
export const tiersOptions = z.strictObject({
  hbmBytes: z
    .int()
    .min(1)
    .default(256 * 2 ** 20)
    .describe("Device memory for rows of cached tables, of each device."),
  ddrBytes: z
    .int()
    .min(0)
    .default(2 ** 30)
    .describe("Host memory for rows below it, of each device; 0: none."),
  ssd: z
    .enum(["auto", "file", "rocksdb"])
    .default("auto")
    .describe(
      "Storage of all rows below that: `rocksdb`, or `file`, a flat file with a place for every row. `auto`: RocksDB where this machine has its binary, else files; a run that left durable rows goes on in the store that has them, and naming the other one is refused. Changes no bit.",
    ),
  directory: pathOption("kept", z.string().min(1))
    .optional()
    .describe(
      'Directory of these files; left out, `tiers` in the checkpoint directory. They are deleted when the run ends, but for tables with `keep: "durable"`.',
    ),
  diskFullWaitMs: z
    .int()
    .min(0)
    .max(86_400_000)
    .default(240_000)
    .describe(
      "How long a run on one host waits for room when the disk of its tiers or checkpoints is full; meanwhile no step deadline ends it. On several hosts: half of `stepDeadlineMs`.",
    ),
  policy: z
    .enum(cachePolicies)
    .default("lru")
    .describe(
      "Rows that are evicted: the least recently used (`lru`), or the least frequently used (`lfu`).",
    ),
  prefetch: z
    .int()
    .min(0)
    .max(8)
    .default(1)
    .describe(
      "Rows are fetched this many batches ahead, while other batches compute; 0: in their own step.",
    ),
});

export type TiersSpec = z.output<typeof tiersOptions>;

// A shard as devices of a generation hold it.

import type { BagShard } from "../../embedding/lookup/bag-frames.ts";
import type { Shard } from "../../embedding/tables/shards.ts";

/** A shard, and its place among the shards of its device, or among the replicated shards. */
export interface HeldShard extends Shard, BagShard {
  /** First column of the shard where all shards of the device lie side by side. */
  readonly column: number;
}

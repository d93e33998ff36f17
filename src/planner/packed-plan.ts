// A plan as it is sent to hosts and threads: a few numbers for each shard, tables by their index.

import { type PlacedShard, type Plan, schemes, tiers } from "./shards.ts";

/**
 * The numbers of a shard: its table, scheme and tier by index; its first row block and number of
 * row blocks; the same for column quanta; its device, or -1 for a copy on each; and the bytes of
 * its HBM and DDR caches, if it has any.
 */
type PackedShard = [number, number, number, number, number, number, number, number, ...number[]];

/** A plan as numbers; `packedPlanSchema` (plan-file.ts) validates it. */
export interface PackedPlan {
  readonly hosts: number;
  readonly perHost: number;
  readonly shards: readonly PackedShard[];
}

const copies = -1;

/** Packs a plan for these tables. */
export function packPlan(
  { devices, shards }: Plan,
  tables: readonly { name: string }[],
): PackedPlan {
  const indexOf = new Map(tables.map(({ name }, index) => [name, index]));
  return {
    ...devices,
    shards: shards.map(
      (shard): PackedShard => [
        indexOf.get(shard.table) ?? 0,
        schemes.indexOf(shard.scheme),
        tiers.indexOf(shard.tier),
        ...([shard.firstBlock, shard.blocks, shard.firstQuantum, shard.quanta] as const),
        shard.device === "all" ? copies : shard.device,
        ...(shard.cache === undefined ? [] : [shard.cache.hbmBytes, shard.cache.ddrBytes]),
      ],
    ),
  };
}

/** Unpacks a plan for these tables. */
export function unpackPlan(
  { hosts, perHost, shards }: PackedPlan,
  tables: readonly { name: string }[],
): Plan {
  return {
    devices: { hosts, perHost },
    shards: shards.map((numbers): PlacedShard => {
      const [table, scheme, tier, firstBlock, blocks, firstQuantum, quanta, device] = numbers;
      const [hbmBytes, ddrBytes] = numbers.slice(8);
      const isSized = hbmBytes !== undefined && ddrBytes !== undefined;
      return {
        table: tables[table]?.name ?? "",
        scheme: schemes[scheme] ?? "table-wise",
        tier: tiers[tier] ?? "memory",
        ...{ firstBlock, blocks, firstQuantum, quanta },
        device: device === copies ? "all" : device,
        ...(isSized ? { cache: { hbmBytes, ddrBytes } } : {}),
      };
    }),
  };
}

// The heat of shards: how many ids a device has looked up in each of its shards. Counters in shared
// memory that only grow, which the host samples (actors/host/shard.ts). No weight depends on them.

import type { Bags } from "../../kernels/contract/kernels.ts";

/** A shard with a word of its own, and its lookups, which stand side by side in bags. */
interface CountedShard {
  /** Index of the shard in the job. */
  readonly shard: number;
  readonly lookups: readonly unknown[];
}

/** The words of a job's heat: one for each shard. */
export function heatWords({
  heldBy,
  distinctBy,
  replicated,
}: {
  readonly heldBy: readonly (readonly CountedShard[])[];
  readonly distinctBy: readonly (readonly CountedShard[])[];
  readonly replicated: readonly CountedShard[];
}): number {
  return [...heldBy.flat(), ...distinctBy.flat(), ...replicated].length;
}

/**
 * Counts the ids of a step: `bags` of the `held` shards, and for each of the `distinct` shards the
 * rows that devices asked for.
 */
export function countHeat(
  heat: Float64Array,
  held: { readonly shards: readonly CountedShard[]; readonly bags: Bags },
  distinct: { readonly shards: readonly CountedShard[]; readonly bags: readonly Bags[] },
): void {
  let lookup = 0;
  for (const { shard, lookups } of held.shards) {
    heat[shard] = (heat[shard] ?? 0) + idsIn(held.bags, lookup, lookups.length);
    lookup += lookups.length;
  }
  for (const [i, { shard }] of distinct.shards.entries()) {
    heat[shard] = (heat[shard] ?? 0) + (distinct.bags[i]?.ids.length ?? 0);
  }
}

/** Ids of some neighbouring lookups. */
function idsIn({ offsets, samples }: Bags, first: number, count: number): number {
  return (offsets[(first + count) * samples] ?? 0) - (offsets[first * samples] ?? 0);
}

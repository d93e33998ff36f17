// The heat of shards: how many ids a device has looked up in each of its shards. The counters lie
// in shared memory and only grow; the host samples them (actors/host/shard.ts). No weight depends
// on them.

import type { Bags } from "../../kernels/contract/kernels.ts";

/** A shard with a counter of its own, and its lookups, which are adjacent in the bags. */
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
 * Counts the ids of a step: the `bags` of the `held` shards, and for each of the `distinct` shards
 * the rows that devices requested.
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

/** Number of ids in `count` adjacent lookups from `first`. */
function idsIn({ offsets, samples }: Bags, first: number, count: number): number {
  return (offsets[(first + count) * samples] ?? 0) - (offsets[first * samples] ?? 0);
}

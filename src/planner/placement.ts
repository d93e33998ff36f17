// The placement: which device runs which slices and holds which shards. It decides speed and
// memory, and never a bit of the result (law 4). What `osiris plan` searches is a plan (search.ts);
// this is the part of one that the runtime executes: whole tables, each on one device.

import { partitionGreedily } from "./partition.ts";

/** What the planner knows of a shard. */
export interface ShardLoad {
  readonly shard: number;
  readonly bytes: number;
  readonly cost: number;
}

/** One device's part of a placement. */
export interface DevicePlacement {
  /** Its slices: a run, so that its samples are a run of the batch. */
  readonly firstSlice: number;
  readonly slices: number;
  /** Its shards, ascending. */
  readonly shards: readonly number[];
}

export interface Placement {
  readonly devices: readonly DevicePlacement[];
  readonly slices: number;
}

/**
 * Slices in even runs; shards greedily, the costliest first, each to the device with the least load
 * so far (longest processing time first; papers.md 1.4). Ties go to the lower index, so the plan is
 * a function of its arguments.
 */
export function place(options: {
  readonly slices: number;
  readonly shards: readonly ShardLoad[];
  readonly devices: number;
}): Placement {
  const { slices, shards, devices } = options;
  const owned = Array.from({ length: devices }, (): number[] => []);
  const groups = shards.map((shard) => ({ level: "device" as const, parts: [shard] }));
  const room = { devices: { hosts: 1, perHost: devices }, bytes: Infinity };
  const placed = partitionGreedily(groups, room);
  for (const [i, { shard }] of shards.entries()) owned[placed?.deviceOf[i] ?? 0]?.push(shard);
  return {
    slices,
    devices: owned.map((mine, device) => {
      const firstSlice = Math.floor((device * slices) / devices);
      const end = Math.floor(((device + 1) * slices) / devices);
      return { firstSlice, slices: end - firstSlice, shards: mine.sort((a, b) => a - b) };
    }),
  };
}

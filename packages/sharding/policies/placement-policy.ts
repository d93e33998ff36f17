// A trained placement policy as data, and the placement of any tables on any devices by it, also of
// tables and devices outside its training.

import type { Kernels } from "../../../internal.ts";
import type { DeviceRoom, TablesOfDevices } from "../search/greedy.ts";
import { autoShardShapes, placeByAutoShard } from "./autoshard/place.ts";
import { dreamShardShapes, placeByDreamShard } from "./dreamshard/place.ts";
import type { ParameterShape, TrainedNetworks } from "./parameters.ts";
import type { SizedTable } from "./table-pool.ts";

export const policyMethods = ["dreamshard", "autoshard"] as const;

export type PolicyMethod = (typeof policyMethods)[number];

/**
 * A trained policy. Its placements are deterministic: equal policies with equal arithmetic place
 * equal tables equally.
 */
export interface PlacementPolicy extends TrainedNetworks {
  readonly method: PolicyMethod;
}

/** Returns the shapes of the weights of a policy. */
export function policyShapes(method: PolicyMethod): readonly ParameterShape[] {
  switch (method) {
    case "dreamshard":
      return dreamShardShapes;
    case "autoshard":
      return autoShardShapes;
    default:
      return method satisfies never;
  }
}

/** Returns the tables of each device, by index; undefined if a table does not fit. */
export function placeByPolicy(
  kernels: Kernels,
  policy: PlacementPolicy,
  tables: readonly SizedTable[],
  room: DeviceRoom,
): TablesOfDevices | undefined {
  switch (policy.method) {
    case "dreamshard":
      return placeByDreamShard(kernels, policy, tables, room);
    case "autoshard":
      return placeByAutoShard(kernels, policy, tables, room);
    default:
      return policy.method satisfies never;
  }
}

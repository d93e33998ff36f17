// A trained placement policy as data, and what it makes of tables and devices that it may never
// have seen.

import type { Kernels } from "../../kernels/contract/kernels.ts";
import type { DeviceRoom, TablesOfDevices } from "../learned/greedy.ts";
import { autoShardShapes, placeByAutoShard } from "./autoshard/place.ts";
import { dreamShardShapes, placeByDreamShard } from "./dreamshard/place.ts";
import type { ParameterShape, TrainedNetworks } from "./parameters.ts";
import type { SizedTable } from "./table-pool.ts";

export const policyMethods = ["dreamshard", "autoshard"] as const;

export type PolicyMethod = (typeof policyMethods)[number];

/** Equal policies on equal arithmetic place equal tables equally. */
export interface PlacementPolicy extends TrainedNetworks {
  readonly method: PolicyMethod;
}

/** The weights that a policy has. */
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

/** The tables of each device, by index; undefined where one has no room. */
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

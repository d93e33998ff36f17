// Places tables by a trained DreamShard policy: each table, in descending order of cost, goes to
// its most probable device with room.

import type { Kernels } from "../../../../internal.ts";
import type { DeviceRoom, TablesOfDevices } from "../../search/greedy.ts";
import { CostModel, costModelShapes, deviceCostNames } from "../cost-model.ts";
import type { TrainedNetworks } from "../parameters.ts";
import { policyFeatures, poolFeatures, type SizedTable } from "../table-pool.ts";
import { playEpisodes } from "./episodes.ts";
import { Policy, policyNetworkShapes } from "./policy.ts";

/** The weights of a DreamShard policy: those of both networks. */
export const dreamShardShapes = [...costModelShapes(deviceCostNames), ...policyNetworkShapes];

/** Returns the tables of each device, by index; undefined if a table does not fit. */
export function placeByDreamShard(
  kernels: Kernels,
  { standard, hasCosts, weights }: TrainedNetworks,
  tables: readonly SizedTable[],
  room: DeviceRoom,
): TablesOfDevices | undefined {
  const model = new CostModel(kernels, 0, deviceCostNames);
  const policy = new Policy(kernels, 0);
  model.parameters.take(weights);
  policy.parameters.take(weights);
  const features = kernels.tensor([tables.length, policyFeatures]);
  kernels.write(features, poolFeatures(tables, standard));
  const known = {
    ...{ model, policy, hasCosts },
    costVectors: model.vectors(features),
    policyVectors: policy.vectors(features),
    bytes: tables.map(({ bytes }) => bytes),
  };
  const task = { tables: [...tables.keys()], room };
  const { placed, isWhole } = playEpisodes(kernels, known, task, 1);
  return isWhole[0] === true ? placed[0] : undefined;
}

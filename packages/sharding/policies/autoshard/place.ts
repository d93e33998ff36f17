// Places tables by a trained AutoShard policy: each table, in descending order of cost, goes to its
// most probable device with room.

import type { Kernels } from "../../../../internal.ts";
import type { DeviceRoom, TablesOfDevices } from "../../search/greedy.ts";
import { CostModel, costModelShapes } from "../cost-model.ts";
import type { TrainedNetworks } from "../parameters.ts";
import { policyFeatures, poolFeatures, type SizedTable } from "../table-pool.ts";
import { autoCostNames, playAuto } from "./episodes.ts";
import { AutoNetwork, autoNetworkShapes } from "./network.ts";

/** The weights of an AutoShard policy: those of both networks. */
export const autoShardShapes = [...costModelShapes(autoCostNames), ...autoNetworkShapes];

/** Returns the tables of each device, by index; undefined if a table does not fit. */
export function placeByAutoShard(
  kernels: Kernels,
  { standard, hasCosts, weights }: TrainedNetworks,
  tables: readonly SizedTable[],
  room: DeviceRoom,
): TablesOfDevices | undefined {
  const model = new CostModel(kernels, 0, autoCostNames);
  const network = new AutoNetwork(kernels, 0);
  model.parameters.take(weights);
  network.parameters.take(weights);
  const features = kernels.tensor([tables.length, policyFeatures]);
  kernels.write(features, poolFeatures(tables, standard));
  const vectors = model.vectors(features);
  const known = { model, network, hasCosts, vectors, bytes: tables.map(({ bytes }) => bytes) };
  const { placed, isWhole } = playAuto(kernels, known, [{ tables: [...tables.keys()], room }]);
  return isWhole[0] === true ? placed[0] : undefined;
}

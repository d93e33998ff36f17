// A trained placement policy as data, and the placement of any tables on any devices by it, also of
// tables and devices outside its training.

import type { Kernels } from "../../../internal.ts";
import type { Standard } from "../search/features.ts";
import type { DeviceRoom, TablesOfDevices } from "../search/greedy.ts";
import { AutoNetwork, rowGraph } from "./autoshard/network.ts";
import { autoCostNames, CostModel, costGraphs, deviceCostNames } from "./cost-model.ts";
import { Policy, policyGraphs } from "./dreamshard/policy.ts";
import { playEpisodes } from "./episodes.ts";
import type { NamedWeights } from "./policy-networks.ts";
import { poolFeatures, type SizedTable } from "./table-pool.ts";

/** The methods by which a policy is trained. */
export const policyMethods = ["dreamshard", "autoshard"] as const;

/** How a policy is trained: as in DreamShard (NeurIPS 2022) or AutoShard (KDD 2022). */
export type PolicyMethod = (typeof policyMethods)[number];

/**
 * A trained policy. Its placements are deterministic: equal policies with equal arithmetic place
 * equal tables equally.
 */
export interface PlacementPolicy {
  readonly method: PolicyMethod;
  /** Standardisation of the features of tables. */
  readonly standard: Standard;
  /** Whether the policy reads predicted costs; false only for ablation. */
  readonly hasCosts: boolean;
  /** The weights of the cost network and of the policy network. */
  readonly weights: readonly NamedWeights[];
}

/** Returns names and shapes of the weights of a policy. */
export function policyShapes(method: PolicyMethod): Pick<NamedWeights, "name" | "shape">[] {
  const ofCosts = Object.values(
    costGraphs(method === "dreamshard" ? deviceCostNames : autoCostNames),
  );
  const ofPolicy =
    method === "dreamshard" ? Object.values(policyGraphs()) : [rowGraph(1, 1, false)];
  return [...ofCosts, ...ofPolicy].flatMap(({ layout }) => layout.parameters);
}

/** Returns the tables of each device, by index; undefined if a table does not fit. */
export function placeByPolicy(
  kernels: Kernels,
  { method, standard, hasCosts, weights }: PlacementPolicy,
  tables: readonly SizedTable[],
  room: DeviceRoom,
): TablesOfDevices | undefined {
  const isDream = method === "dreamshard";
  const model = new CostModel(kernels, 0, isDream ? deviceCostNames : autoCostNames);
  const policy = isDream ? new Policy(kernels, 0) : new AutoNetwork(kernels, 0);
  for (const network of [model, policy]) network.weights.take(weights);
  const features = poolFeatures(kernels, tables, standard);
  const costVectors = model.vectors(features);
  const policyVectors = policy instanceof Policy ? policy.vectors(features) : costVectors;
  const bytes = tables.map((table) => table.bytes);
  const known = { model, costVectors, policyVectors, bytes, hasCosts };
  const { devices } = room;
  const extent = { steps: tables.length, episodes: 1, devices };
  const score = policy instanceof Policy ? policy.player(devices) : policy.player(known, extent);
  const task = { tables: [...tables.keys()], room };
  const { placed, isWhole } = playEpisodes(known, [task], score);
  return isWhole[0] === true ? placed[0] : undefined;
}

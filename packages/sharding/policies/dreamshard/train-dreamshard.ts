// DreamShard's training (Zha et al., NeurIPS 2022, algorithm 1). Each turn measures plans of the
// policy, trains the cost network on all measured plans, and trains the policy by REINFORCE against
// the cost network alone. The caller provides the function that measures. The same tables, tasks,
// measurements, seed and arithmetic give the same bits.

import { type Kernels, purposes, RandomStream } from "../../../../internal.ts";
import { slowestOf } from "../../search/cost-networks.ts";
import { CostModel, costLearner, deviceCostNames, type MeasuredPlan } from "../cost-model.ts";
import {
  type Episodes,
  type KnownPool,
  playEpisodes,
  sumAt,
  usualEntropyWeight,
} from "../episodes.ts";
import type { PlacementPolicy } from "../placement-policy.ts";
import { adamOver } from "../policy-networks.ts";
import { drawn, type PlacementTask, type PolicySubject, poolFeatures } from "../table-pool.ts";
import { Policy, type PolicyEpisodes } from "./policy.ts";

export interface DreamOptions {
  /** @default 1 */
  readonly seed?: number;
  /** Number of turns. @default 10 */
  readonly turns?: number;
  /** Plans that are measured in a turn. @default 50 */
  readonly plans?: number;
  /** Updates of the cost network in a turn. @default 1000 */
  readonly costUpdates?: number;
  /** Updates of the policy in a turn. @default 50 */
  readonly policyUpdates?: number;
  /** Episodes of an update. @default 10 */
  readonly episodes?: number;
  /** Whether the policy reads predicted costs; `false` is for ablation. @default true */
  readonly hasCosts?: boolean;
  /** Called after each turn. */
  readonly onTurn?: (turn: DreamTurn) => void;
}

/** Report on a turn. */
export interface DreamTurn {
  readonly turn: number;
  /** Mean cost of the plans that the turn measured; undefined: no plan of the turn fits. */
  readonly measured: number | undefined;
  /** The cost network's loss, of its last update. */
  readonly costLoss: number;
}

/** Learning rates of the first update. */
const costRate = 5e-4;
const policyRate = 4e-3;

/**
 * Trains a DreamShard policy. A turn trains nothing as long as no plan was measured.
 * @throws RangeError unless the tasks have equal numbers of devices
 */
export function trainDreamShard(
  kernels: Kernels,
  subject: PolicySubject,
  options: DreamOptions = {},
): PlacementPolicy {
  const { seed = 1, turns = 10, plans = 50, costUpdates = 1000, policyUpdates = 50 } = options;
  const { episodes = 10, hasCosts = true, onTurn = () => {} } = options;
  const { tables, tasks, measure } = subject;
  const model = new CostModel(kernels, seed, deviceCostNames);
  const policy = new Policy(kernels, seed + 1);
  const random = new RandomStream(seed, purposes.policyChoices);
  const devices = devicesOf(tasks);
  const { standard, features, learn } = costLearner(model, tables, {
    ...{ devices, rate: costRate, random },
  });
  const updatePolicy = adamOver(policy.weights, { rate: policyRate });
  const bytes = tables.map((table) => table.bytes);
  const knownNow = (costVectors: Float32Array): KnownPool => {
    return { model, costVectors, policyVectors: policy.vectors(features), bytes, hasCosts };
  };
  const play = (known: KnownPool, task: PlacementTask, count: number) => {
    const seen: Float32Array[] = [];
    const player = policy.player(count * devices, seen);
    return { ...playEpisodes(known, new Array(count).fill(task), player, random), seen };
  };
  const measured: MeasuredPlan[] = [];
  let unit = 1;

  for (let turn = 0; turn < turns; turn++) {
    const known = knownNow(model.vectors(features));
    const first = measured.length;
    for (let plan = 0; plan < plans; plan++) {
      const { placed, isWhole } = play(known, drawn(tasks, random), 1);
      const [placement = []] = placed;
      // A plan that does not fit cannot be measured.
      if (isWhole[0] === true) measured.push({ placed: placement, costs: measure(placement) });
    }
    const mean = meanOf(measured.slice(first));
    if (measured.length === 0) continue;
    if (first === 0) unit = mean ?? 1;
    const costLoss = learn(measured, unit, {
      count: costUpdates,
      shareOf: (update) => left(turn * costUpdates + update, turns * costUpdates),
    });
    const costVectors = model.vectors(features);
    for (let update = 0; update < policyUpdates; update++) {
      const played = play(knownNow(costVectors), drawn(tasks, random), episodes);
      const features = poolFeatures(
        kernels,
        (played.orders[0] ?? []).flatMap((i) => tables[i] ?? []),
        standard,
      );
      policy.gradient(features, episodesOf(played), usualEntropyWeight);
      updatePolicy(left(turn * policyUpdates + update, turns * policyUpdates));
    }
    onTurn({ turn, measured: mean, costLoss });
  }
  const weights = [...model.weights.named(), ...policy.weights.named()];
  return { method: "dreamshard", standard, hasCosts, weights };
}

/** Share of the learning rate, which falls linearly from 1 to 0. */
function left(update: number, updates: number): number {
  return 1 - update / updates;
}

/** Mean cost of plans; undefined without plans. */
function meanOf(plans: readonly MeasuredPlan[]): number | undefined {
  if (plans.length === 0) return undefined;
  return plans.reduce((sum, { costs }) => sum + slowestOf(costs), 0) / plans.length;
}

function devicesOf(tasks: readonly PlacementTask[]): number {
  const devices = tasks[0]?.room.devices ?? 0;
  if (devices > 0 && tasks.every(({ room }) => room.devices === devices)) return devices;
  throw new RangeError("Expected tasks of one number of devices, and at least one");
}

/** Penalty of a plan that does not fit, in the cost network's unit: the mean cost of a plan. */
const noRoomCost = 1;

/**
 * Converts episodes of one task to input of the policy's gradient. The reward is the predicted cost
 * of the slowest device, negated; advantages are rewards standardised over the episodes.
 */
export function episodesOf(
  played: Pick<Episodes, "actions" | "hasRoom" | "isWhole" | "costs"> & {
    /** The costs that the policy read, step by step. */
    readonly seen: readonly Float32Array[];
  },
): PolicyEpisodes {
  const { actions, hasRoom, isWhole, costs, seen } = played;
  const count = isWhole.length;
  const devices = hasRoom.length / actions.length;
  const heads = costs.length / count / devices;
  const slowest = Float32Array.from(isWhole, (_, episode) => {
    const deviceCosts = Array.from({ length: devices }, (_, i) =>
      sumAt(costs, heads, episode * devices + i),
    );
    return Math.max(...deviceCosts);
  });
  const rewards = isWhole.map((isOne, i) => -(slowest[i] ?? 0) - (isOne ? 0 : noRoomCost));
  const better = standardisedRewards(rewards);
  const advantages = Float64Array.from(actions, (_, i) => better[i % count] ?? 0);
  return {
    devices,
    places: placesOf(actions, count, devices),
    seen,
    hasRoom,
    actions,
    advantages,
    count,
  };
}

function standardisedRewards(rewards: readonly number[]): number[] {
  const mean = rewards.reduce((sum, own) => sum + own, 0) / rewards.length;
  const squares = rewards.reduce((sum, own) => sum + (own - mean) ** 2, 0);
  const deviation = Math.sqrt(squares / Math.max(1, rewards.length - 1));
  return rewards.map((own) => (own - mean) / (deviation + 1e-6));
}

/** By step, episode, device: 1 where the device has the table of an earlier step. */
function placesOf(actions: Int32Array, count: number, devices: number): Float32Array {
  const steps = actions.length / count;
  const places = new Float32Array(steps * count * devices * steps);
  for (let step = 1; step < steps; step++) {
    for (let episode = 0; episode < count; episode++) {
      for (let device = 0; device < devices; device++) {
        const row = (step * count + episode) * devices + device;
        const before = ((step - 1) * count + episode) * devices + device;
        places.copyWithin(row * steps, before * steps, before * steps + step);
        const isHere = actions[(step - 1) * count + episode] === device;
        if (isHere) places[row * steps + step - 1] = 1;
      }
    }
  }
  return places;
}

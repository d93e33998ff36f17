// DreamShard's training (Zha et al., NeurIPS 2022, algorithm 1). Each turn measures plans of the
// policy, trains the cost network on all measured plans, and trains the policy by REINFORCE against
// the cost network alone. The caller provides the function that measures. The same tables, tasks,
// measurements, seed and arithmetic give the same bits.

import { type Kernels, purposes, RandomStream } from "../../../../internal.ts";
import { slowestOf } from "../../search/cost-networks.ts";
import type { Standard } from "../../search/features.ts";
import { CostModel, CostTrainer, deviceCostNames, type MeasuredPlan } from "../cost-model.ts";
import type { PlacementPolicy } from "../placement-policy.ts";
import {
  type PlacementTask,
  type PolicySubject,
  policyFeatures,
  policyStandardOf,
  poolFeatures,
  type SizedTable,
} from "../table-pool.ts";
import { type KnownPool, type PlayedEpisodes, playEpisodes } from "./episodes.ts";
import { Policy } from "./policy.ts";

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
  /** Mean cost of the plans that the turn measured. */
  readonly measured: number;
  /** The cost network's loss, of its last update. */
  readonly costLoss: number;
}

/** Plans of an update of the cost network. */
const costBatch = 64;
/** Learning rates of the first update. */
const costRate = 5e-4;
const policyRate = 4e-3;
/** Weight decay of the cost network: prevents overfitting to the tables of the training. */
const costDecay = 1;
const entropyWeight = 1e-3;

export function trainDreamShard(
  kernels: Kernels,
  subject: PolicySubject,
  options: DreamOptions = {},
): PlacementPolicy {
  const { seed = 1, turns = 10, plans = 50, costUpdates = 1000, policyUpdates = 50 } = options;
  const { episodes = 10, hasCosts = true, onTurn = () => {} } = options;
  const { tables, tasks, measure } = subject;
  const standard = policyStandardOf(tables);
  const features = kernels.tensor([tables.length, policyFeatures]);
  kernels.write(features, poolFeatures(tables, standard));
  const model = new CostModel(kernels, seed, deviceCostNames);
  const policy = new Policy(kernels, seed + 1);
  const random = new RandomStream(seed, purposes.policyChoices);
  const devices = devicesOf(tasks);
  const trainer = new CostTrainer(kernels, model, { features, plans: costBatch, devices });
  const bytes = tables.map((table) => table.bytes);
  const knownNow = (): KnownPool => ({
    ...{ model, policy, bytes, hasCosts },
    costVectors: model.vectors(features),
    policyVectors: policy.vectors(features),
  });
  const drawnTask = () => tasks[random.below(tasks.length)] as PlacementTask;
  const measured: MeasuredPlan[] = [];
  let unit = 1;

  for (let turn = 0; turn < turns; turn++) {
    const known = knownNow();
    const first = measured.length;
    for (let plan = 0; plan < plans; plan++) {
      const { placed, isWhole } = playEpisodes(kernels, known, drawnTask(), 1, random);
      const own = placed[0] ?? [];
      // A plan that does not fit cannot be measured.
      if (isWhole[0] === true) measured.push({ placed: own, costs: measure(own) });
    }
    const collected = measured.slice(first);
    if (measured.length === 0) continue;
    if (first === 0) unit = meanOf(collected);
    let costLoss = 0;
    for (let update = 0; update < costUpdates; update++) {
      const batch = Array.from({ length: costBatch }, () => {
        return measured[random.below(measured.length)] as MeasuredPlan;
      });
      costLoss = trainer.gradients(batch, unit);
      const rate = costRate * left(turn * costUpdates + update, turns * costUpdates);
      model.parameters.update(rate, { decay: costDecay });
    }
    const costVectors = model.vectors(features);
    for (let update = 0; update < policyUpdates; update++) {
      const policyVectors = policy.vectors(features);
      const now: KnownPool = { model, policy, bytes, hasCosts, costVectors, policyVectors };
      const played = playEpisodes(kernels, now, drawnTask(), episodes, random);
      policy.gradients(episodesOf(kernels, played, { tables, standard, devices }), entropyWeight);
      const rate = policyRate * left(turn * policyUpdates + update, turns * policyUpdates);
      policy.parameters.update(rate);
    }
    onTurn({ turn, measured: meanOf(collected), costLoss });
  }
  const weights = [...model.parameters.named(), ...policy.parameters.named()];
  return { method: "dreamshard", standard, hasCosts, weights };
}

/** Factor of the learning rate, which falls linearly from 1 to 0. */
function left(update: number, updates: number): number {
  return 1 - update / updates;
}

function meanOf(plans: readonly MeasuredPlan[]): number {
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
 * Converts played episodes to input of the policy's gradients. Advantages are rewards standardised
 * over the episodes.
 */
export function episodesOf(
  kernels: Kernels,
  played: PlayedEpisodes,
  of: {
    readonly tables: readonly SizedTable[];
    readonly standard: Standard;
    readonly devices: number;
  },
) {
  const { order, actions, hasRoom, seen, isWhole } = played;
  const { devices } = of;
  const count = isWhole.length;
  const steps = order.length;
  const own = order.map((table) => of.tables[table] as SizedTable);
  const features = kernels.tensor([steps, policyFeatures]);
  kernels.write(features, poolFeatures(own, of.standard));
  const rows = steps * count * devices;
  const places = kernels.tensor([rows, steps]);
  kernels.write(places, placesOf(actions, steps, count, devices));
  const costs = kernels.tensor([rows, seen.length / rows]);
  kernels.write(costs, seen);
  const rewards = [...played.costs].map((cost, i) => -cost - (isWhole[i] ? 0 : noRoomCost));
  const better = standardisedRewards(rewards);
  const advantages = Float64Array.from(actions, (_, i) => better[i % count] ?? 0);
  return { devices, features, places, costs, hasRoom, actions, advantages, count };
}

function standardisedRewards(rewards: readonly number[]): number[] {
  const mean = rewards.reduce((sum, own) => sum + own, 0) / rewards.length;
  const squares = rewards.reduce((sum, own) => sum + (own - mean) ** 2, 0);
  const deviation = Math.sqrt(squares / Math.max(1, rewards.length - 1));
  return rewards.map((own) => (own - mean) / (deviation + 1e-6));
}

/** By step, episode, device: 1 where the device has the table of an earlier step. */
function placesOf(actions: Int32Array, steps: number, count: number, devices: number) {
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

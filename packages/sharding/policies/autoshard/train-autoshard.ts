// AutoShard's training (Zha et al., KDD 2022, section 3.4): episodes are played with the weights of
// the previous update, their plans are measured, and the network learns from them by V-trace
// (IMPALA). The cost network learns from the measured plans, too. The caller provides the function
// that measures. The same tables, tasks, measurements, seed and arithmetic give the same bits.

import { type Kernels, purposes, RandomStream } from "../../../../internal.ts";
import type { DeviceCosts } from "../../search/cost-networks.ts";
import type { TablesOfDevices } from "../../search/greedy.ts";
import { entropyOf, probabilities } from "../choices.ts";
import { CostModel, CostTrainer, type MeasuredPlan, vectorColumns } from "../cost-model.ts";
import type { PlacementPolicy } from "../placement-policy.ts";
import {
  type PlacementTask,
  type PolicySubject,
  policyFeatures,
  policyStandardOf,
  poolFeatures,
} from "../table-pool.ts";
import { type AutoEpisodes, type AutoPool, autoCostNames, playAuto } from "./episodes.ts";
import { AutoNetwork, deviceNumbers } from "./network.ts";
import { vTrace } from "./v-trace.ts";

export interface AutoOptions {
  /** @default 1 */
  readonly seed?: number;
  /** Updates of the network. @default 150 */
  readonly updates?: number;
  /** Episodes of an update, all of which are measured. @default 8 */
  readonly episodes?: number;
  /** Updates of the cost network for each update of the policy network. @default 20 */
  readonly costUpdates?: number;
  /** Whether the network reads predicted costs; `false` is for ablation. @default true */
  readonly hasCosts?: boolean;
  /** Called after each update. */
  readonly onUpdate?: (update: AutoUpdate) => void;
}

export interface AutoUpdate {
  readonly update: number;
  /**
   * Mean reward of the played plans: cost of the fastest device over that of the slowest, or below
   * 0 for a plan that does not fit.
   */
  readonly balance: number;
  readonly costLoss: number;
}

const learningRate = 1e-3;
const costRate = 1e-3;
/** Weight decay, as in DreamShard: prevents overfitting to the tables of the training. */
const costDecay = 1;
const normMax = 40;
const entropyWeight = 1e-3;
const valueWeight = 0.5;
/** Plans of an update of the cost network; `plansMax`: plans that are kept for its updates. */
const costBatch = 64;
const plansMax = 625;

export function trainAutoShard(
  kernels: Kernels,
  subject: PolicySubject,
  options: AutoOptions = {},
): PlacementPolicy {
  const { seed = 1, updates = 150, episodes = 8, costUpdates = 20 } = options;
  const { hasCosts = true, onUpdate = () => {} } = options;
  const { tables, tasks, measure } = subject;
  const standard = policyStandardOf(tables);
  const features = kernels.tensor([tables.length, policyFeatures]);
  kernels.write(features, poolFeatures(tables, standard));
  const model = new CostModel(kernels, seed, autoCostNames);
  const learner = new AutoNetwork(kernels, seed + 1);
  const player = new AutoNetwork(kernels, seed + 1);
  const random = new RandomStream(seed, purposes.policyChoices);
  const devices = tasks[0]?.room.devices ?? 0;
  const trainer = new CostTrainer(kernels, model, { features, plans: costBatch, devices });
  const bytes = tables.map((table) => table.bytes);
  const measured: MeasuredPlan[] = [];
  let unit = 0;

  for (let update = 0; update < updates; update++) {
    const left = 1 - update / updates;
    const vectors = model.vectors(features);
    const known: AutoPool = { model, network: player, vectors, bytes, hasCosts };
    const drawn = Array.from({ length: episodes }, () => {
      return tasks[random.below(tasks.length)] as PlacementTask;
    });
    const played = playAuto(kernels, known, drawn, random);
    const rewards = played.placed.map((placed, episode) => {
      if (played.isWhole[episode] !== true) return noRoomReward(placed, bytes, drawn[episode]);
      const costs = measure(placed);
      measured.push({ placed, costs });
      if (measured.length > plansMax) measured.shift();
      return balanceOf(costs);
    });
    if (unit === 0 && measured.length > 0) unit = meanOf(measured);
    // The next episodes are played with the weights before this update.
    player.parameters.take(learner.parameters.named());
    learn(learner, played, rewards, devices);
    learner.parameters.update(learningRate * left, { normMax });
    let costLoss = 0;
    for (let i = 0; i < costUpdates && measured.length > 0; i++) {
      const batch = Array.from({ length: costBatch }, () => {
        return measured[random.below(measured.length)] as MeasuredPlan;
      });
      costLoss = trainer.gradients(batch, unit);
      model.parameters.update(costRate * left, { decay: costDecay });
    }
    onUpdate({ update, balance: rewards.reduce((a, b) => a + b, 0) / episodes, costLoss });
  }
  const weights = [...model.parameters.named(), ...learner.parameters.named()];
  return { method: "autoshard", standard, hasCosts, weights };
}

/** Cost of the fastest device over that of the slowest; 0 if all costs are 0. */
export function balanceOf(costs: readonly DeviceCosts[]): number {
  const all = costs.map(({ compute }) => compute);
  const most = Math.max(...all);
  return most > 0 ? Math.min(...all) / most : 0;
}

/** A reward below 0: the excess of the fullest device, as a share of its room, negated. */
function noRoomReward(
  placed: TablesOfDevices,
  bytes: readonly number[],
  task: PlacementTask | undefined,
): number {
  const room = task?.room.bytes ?? 1;
  const held = placed.map((own) => own.reduce((sum, table) => sum + (bytes[table] ?? 0), 0));
  return (room - Math.max(...held)) / room;
}

function meanOf(plans: readonly MeasuredPlan[]): number {
  const all = plans.flatMap(({ costs }) => costs.map(({ compute }) => compute));
  return Math.max(1e-9, all.reduce((sum, cost) => sum + cost, 0) / all.length);
}

/**
 * Sets the gradients of the loss of episodes, and returns the loss: the mean over the episodes of
 * the sum over their steps of -advantage * log probability + valueWeight * (value's error)^2 / 2 -
 * entropyWeight * entropy. Advantages and the values' targets are those of V-trace.
 */
export function learn(
  network: AutoNetwork,
  played: AutoEpisodes,
  rewards: readonly number[],
  devices: number,
): number {
  const { kernels } = network;
  const { actions, odds, hasRoom, seen } = played;
  const episodes = rewards.length;
  const steps = actions.length / episodes;
  network.parameters.clear();
  const pass = network.pass({ steps, episodes, devices, isPlayed: false });
  const tensorOf = (values: Float32Array, columns: number) => {
    const t = kernels.tensor([values.length / columns, columns]);
    kernels.write(t, values);
    return t;
  };
  const { scores, values } = pass.forward({
    tables: tensorOf(seen.tables, vectorColumns),
    placed: tensorOf(seen.placed, 1),
    sums: tensorOf(seen.sums, vectorColumns),
    numbers: tensorOf(seen.numbers, deviceNumbers),
  });
  const dScores = new Float32Array(scores.length);
  const dValues = new Float32Array(values.length);
  let loss = 0;
  for (const [episode, reward] of rewards.entries()) {
    const at = (step: number) => step * episodes + episode;
    const shares = Array.from({ length: steps }, (_, step) => {
      return probabilities(scores, hasRoom, at(step) * devices, devices);
    });
    const actionOf = (step: number) => actions[at(step)] ?? 0;
    const targets = vTrace({
      values: shares.map((_, step) => values[at(step)] ?? 0),
      rewards: shares.map((_, step) => (step === steps - 1 ? reward : 0)),
      ratios: shares.map((own, step) => (own[actionOf(step)] ?? 0) / (odds[at(step)] ?? 1)),
      last: 0,
    });
    for (const [step, own] of shares.entries()) {
      const action = actionOf(step);
      const advantage = targets.advantages[step] ?? 0;
      const error = (values[at(step)] ?? 0) - (targets.values[step] ?? 0);
      const entropy = entropyOf(own);
      loss += valueWeight * (error ** 2 / 2) - entropyWeight * entropy;
      loss -= advantage * Math.log(own[action] ?? 0);
      dValues[at(step)] = (valueWeight * error) / episodes;
      for (const [device, share] of own.entries()) {
        if (share === 0) continue;
        const chosen = device === action ? 1 : 0;
        const d =
          advantage * (share - chosen) + entropyWeight * share * (Math.log(share) + entropy);
        dScores[at(step) * devices + device] = d / episodes;
      }
    }
  }
  pass.backward(dScores, dValues);
  return loss / episodes;
}

// AutoShard's training (Zha et al., KDD 2022, section 3.4). The weights of the previous update play
// the episodes, so the episodes are off-policy: the policy network learns from their measured plans
// with V-trace targets (IMPALA), which correct for the older weights. The cost network learns from
// the same measured plans. The caller provides the function that measures a plan. The same tables,
// tasks, measurements, seed and arithmetic give the same bits.

import { type Kernels, purposes, RandomStream } from "../../../../internal.ts";
import type { DeviceCosts } from "../../search/cost-networks.ts";
import type { TablesOfDevices } from "../../search/greedy.ts";
import { autoCostNames, CostModel, costLearner, type MeasuredPlan } from "../cost-model.ts";
import {
  choiceLoss,
  type Episodes,
  playEpisodes,
  probabilities,
  usualEntropyWeight,
} from "../episodes.ts";
import type { PlacementPolicy } from "../placement-policy.ts";
import { adamOver } from "../policy-networks.ts";
import { drawn, type PlacementTask, type PolicySubject } from "../table-pool.ts";
import { AutoNetwork } from "./network.ts";

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
const normMax = 40;
const valueWeight = 0.5;
/** Plans that are kept for updates of the cost network. */
const plansMax = 625;

/**
 * Trains an AutoShard policy.
 * @throws RangeError unless the tasks have equal numbers of tables, and of devices
 */
export function trainAutoShard(
  kernels: Kernels,
  subject: PolicySubject,
  options: AutoOptions = {},
): PlacementPolicy {
  const { seed = 1, updates = 150, episodes = 8, costUpdates = 20 } = options;
  const { hasCosts = true, onUpdate = () => {} } = options;
  const { tables, tasks, measure } = subject;
  const model = new CostModel(kernels, seed, autoCostNames);
  const [learner, player] = [
    new AutoNetwork(kernels, seed + 1),
    new AutoNetwork(kernels, seed + 1),
  ];
  const random = new RandomStream(seed, purposes.policyChoices);
  const devices = tasks[0]?.room.devices ?? 0;
  const extent = { steps: tasks[0]?.tables.length ?? 0, episodes, devices };
  const { standard, features, learn } = costLearner(model, tables, {
    ...{ devices, rate: costRate, random },
  });
  const updateLearner = adamOver(learner.weights, { rate: learningRate, normMax });
  const bytes = tables.map((table) => table.bytes);
  const measured: MeasuredPlan[] = [];
  let unit = 0;

  for (let update = 0; update < updates; update++) {
    const share = 1 - update / updates;
    const vectors = model.vectors(features);
    const known = { model, costVectors: vectors, policyVectors: vectors, bytes, hasCosts };
    const drawnTasks = Array.from({ length: episodes }, () => drawn(tasks, random));
    const seen = learner.seen(extent);
    const played = playEpisodes(known, drawnTasks, player.player(known, extent, seen), random);
    const rewards = played.placed.map((placed, episode) => {
      if (played.isWhole[episode] !== true) return noRoomReward(placed, bytes, drawnTasks[episode]);
      const costs = measure(placed);
      measured.push({ placed, costs });
      if (measured.length > plansMax) measured.shift();
      return balanceOf(costs);
    });
    if (unit === 0 && measured.length > 0) unit = meanOf(measured);
    // The next episodes are played with the weights before this update.
    player.weights.take(learner.weights.named());
    learnFrom(learner, played, seen, rewards);
    updateLearner(share);
    const costLoss = learn(measured, unit, { count: costUpdates, shareOf: () => share });
    onUpdate({ update, balance: rewards.reduce((a, b) => a + b, 0) / episodes, costLoss });
  }
  const weights = [...model.weights.named(), ...learner.weights.named()];
  return { method: "autoshard", standard, hasCosts, weights };
}

/** Cost of the fastest device over that of the slowest; 0 if all costs are 0. */
export function balanceOf(costs: readonly DeviceCosts[]): number {
  const all = costs.map(({ compute }) => compute);
  const slowest = Math.max(...all);
  return slowest > 0 ? Math.min(...all) / slowest : 0;
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
 * Computes the gradient of the actor-critic loss of the episodes, and returns the loss: the mean
 * over episodes of the sum over steps of
 *   -advantage * log(probability of the action) + valueWeight * (value - target)^2 / 2
 *   - entropyWeight * entropy.
 * V-trace gives the advantages and the targets of the values.
 */
function learnFrom(
  network: AutoNetwork,
  { actions, odds, hasRoom, placed }: Episodes,
  seen: Float32Array,
  rewards: readonly number[],
): number {
  const [episodes, devices] = [rewards.length, placed[0]?.length ?? 0];
  const steps = actions.length / episodes;
  let loss = 0;
  network.learn(seen, { steps, episodes, devices }, ({ scores, values }) => {
    const [dScores, dValues] = [new Float32Array(scores.length), new Float32Array(values.length)];
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
      for (const [step, stepShares] of shares.entries()) {
        const error = (values[at(step)] ?? 0) - (targets.values[step] ?? 0);
        dValues[at(step)] = (valueWeight * error) / episodes;
        loss += valueWeight * (error ** 2 / 2);
        loss += choiceLoss(dScores, at(step) * devices, stepShares, {
          ...{ action: actionOf(step), advantage: targets.advantages[step] ?? 0 },
          ...{ entropyWeight: usualEntropyWeight, count: episodes },
        });
      }
    }
    return { scores: dScores, values: dValues };
  });
  return loss / episodes;
}

/** An episode, as input of V-trace (Espeholt et al., "IMPALA", ICML 2018, section 4.1). */
export interface Trace {
  /** Values of the states, as predicted by the policy's network. */
  readonly values: ArrayLike<number>;
  /** Reward of each step. */
  readonly rewards: ArrayLike<number>;
  /**
   * Importance ratio of each action: its probability by the current weights, divided by its
   * probability by the older weights that played the episode.
   */
  readonly ratios: ArrayLike<number>;
  /** Value of the state after the last step; 0 if the episode ends there. */
  readonly last: number;
}

/** Off-policy targets for the states of an episode that an older policy played. */
export interface TraceTargets {
  /** Target of each state's value: v_s in the paper. */
  readonly values: Float64Array;
  /** Advantage of each action over the value of its state: its weight in the policy gradient. */
  readonly advantages: Float64Array;
}

/** The V-trace targets of one episode. Ratios are clipped at 1; rewards are not discounted. */
export function vTrace({ values, rewards, ratios, last }: Trace): TraceTargets {
  const targets = new Float64Array(values.length);
  const advantages = new Float64Array(values.length);
  let next = { target: last, value: last };
  for (let step = values.length - 1; step >= 0; step--) {
    const value = values[step] ?? 0;
    const reward = rewards[step] ?? 0;
    const ratio = Math.min(1, ratios[step] ?? 0);
    advantages[step] = ratio * (reward + next.target - value);
    const delta = ratio * (reward + next.value - value);
    const target = value + delta + ratio * (next.target - next.value);
    targets[step] = target;
    next = { target, value };
  }
  return { values: targets, advantages };
}

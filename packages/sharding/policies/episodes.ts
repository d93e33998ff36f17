// The decision process of placement policies (DreamShard: Zha et al., NeurIPS 2022, section 3.1;
// AutoShard: Zha et al., KDD 2022, section 3.1): an episode places tables one by one, in descending
// order of predicted cost. A policy scores the devices from the placement so far and its predicted
// costs, and a softmax over the devices with room turns the scores into probabilities. Nothing is
// measured: a step takes some small matrix products.
//
// T = tables of a task, E = columns of a vector, D = devices, B = episodes in parallel, C = costs
// of a device.

import type { RandomStream } from "../../../internal.ts";
import type { TablesOfDevices } from "../search/greedy.ts";
import type { CostModel } from "./cost-model.ts";
import { vectorColumns } from "./policy-networks.ts";
import type { PlacementTask } from "./table-pool.ts";

/** A pool of tables, and their vectors by the networks, for all episodes with the same weights. */
export interface KnownPool {
  readonly model: CostModel;
  /** The cost network's vectors of the pool's tables, row by row. */
  readonly costVectors: Float32Array;
  /** The vectors of the tables, row by row, whose sums the policy reads. */
  readonly policyVectors: Float32Array;
  readonly bytes: readonly number[];
  /** Whether the policy reads the predicted costs; otherwise it reads zeros. */
  readonly hasCosts: boolean;
}

/** The state of B episodes before a step, by episode and device. A policy only reads it. */
export interface EpisodeState {
  readonly step: number;
  /** (B): the table of the pool that each episode places next. */
  readonly tables: readonly number[];
  /** (B D E): sums of the policy's vectors of the devices' tables. */
  readonly sums: Float32Array;
  /** (B D C): predicted costs, each relative to the mean over the episode's devices. */
  readonly costs: Float32Array;
  /** (B D): bytes of the devices' tables. */
  readonly held: Float64Array;
}

/** Returns the scores (B D) of the devices; called for steps in order, from 0. */
export type Score = (state: EpisodeState) => Float32Array;

/** B episodes of tasks with equal numbers of tables and of devices, played in parallel. */
export interface Episodes {
  /** The tables of each episode in the order in which they were placed. */
  readonly orders: readonly (readonly number[])[];
  /** The plan of each episode, by tables of the pool. */
  readonly placed: readonly TablesOfDevices[];
  /** Whether all tables of the plan fit. */
  readonly isWhole: readonly boolean[];
  /** By step, episode (T B): the chosen device; `odds`: its probability. */
  readonly actions: Int32Array;
  readonly odds: Float64Array;
  /** By step, episode, device (T B D): whether the table fits. */
  readonly hasRoom: Uint8Array;
  /** (B D C): predicted costs of the devices of the plans, in the cost network's unit. */
  readonly costs: Float32Array;
}

/**
 * Plays an episode of each task. Devices are drawn from the policy's probabilities; without
 * `random`, the most probable device is taken. A table that fits nowhere goes to the emptiest
 * device, and the plan is not whole.
 * @throws RangeError unless the tasks have equal numbers of tables, and of devices
 */
export function playEpisodes(
  known: KnownPool,
  tasks: readonly PlacementTask[],
  scoresOf: Score,
  random?: RandomStream,
): Episodes {
  const { model, costVectors, policyVectors, bytes, hasCosts } = known;
  const { steps, devices } = extentOf(tasks);
  const [episodes, heads] = [tasks.length, model.names.length];
  const rows = episodes * devices;
  const orderOf = orders(known);
  const played = tasks.map(orderOf);
  const costsOf = model.deviceCosts(episodes);
  const [costSums, sums] = [0, 1].map(() => new Float32Array(rows * vectorColumns)) as [
    Float32Array,
    Float32Array,
  ];
  const [costs, seen] = [new Float32Array(rows * heads), new Float32Array(rows * heads)];
  const changed = new Float32Array(episodes * vectorColumns);
  const held = new Float64Array(rows);
  const actions = new Int32Array(steps * episodes);
  const odds = new Float64Array(steps * episodes);
  const hasRoom = new Uint8Array(steps * rows);
  const isWhole = new Array<boolean>(episodes).fill(true);
  const placed = tasks.map(() => Array.from({ length: devices }, (): number[] => []));

  for (let step = 0; step < steps; step++) {
    const room = hasRoom.subarray(step * rows, (step + 1) * rows);
    const tables = played.map(({ order }) => order[step] ?? 0);
    for (const [episode, { share }] of played.entries()) {
      const size = bytes[tables[episode] ?? 0] ?? 0;
      const bytesMax = tasks[episode]?.room.bytes ?? 0;
      const first = episode * devices;
      for (let row = first; row < first + devices; row++) {
        room[row] = (held[row] ?? 0) + size <= bytesMax ? 1 : 0;
      }
      if (!hasCosts) continue;
      const ofEpisode = (of: Float32Array) => of.subarray(first * heads, (first + devices) * heads);
      writeRelative(ofEpisode(seen), ofEpisode(costs), heads, share);
    }
    const scores = scoresOf({ step, tables, sums, costs: seen, held });
    for (const [episode, table] of tables.entries()) {
      const first = episode * devices;
      const chosen = chosenOf(scores, room, first, devices, random);
      if (chosen < 0) isWhole[episode] = false;
      const device = chosen < 0 ? emptiestOf(held, first, devices) : chosen;
      const row = first + device;
      if (chosen < 0) room[row] = 1;
      actions[step * episodes + episode] = device;
      odds[step * episodes + episode] = probabilities(scores, room, first, devices)[device] ?? 0;
      placed[episode]?.[device]?.push(table);
      held[row] = (held[row] ?? 0) + (bytes[table] ?? 0);
      addVector(sums, row, policyVectors, table);
      addVector(costSums, row, costVectors, table);
      const sum = costSums.subarray(row * vectorColumns, (row + 1) * vectorColumns);
      changed.set(sum, episode * vectorColumns);
    }
    const next = costsOf(changed);
    for (let episode = 0; episode < episodes; episode++) {
      const row = episode * devices + (actions[step * episodes + episode] ?? 0);
      costs.set(next.subarray(episode * heads, (episode + 1) * heads), row * heads);
    }
  }
  const order = played.map((own) => own.order);
  return { orders: order, placed, isWhole, actions, odds, hasRoom, costs };
}

/** Tables and devices of each of the tasks. */
function extentOf(tasks: readonly PlacementTask[]): { steps: number; devices: number } {
  const [first] = tasks;
  const steps = first?.tables.length ?? 0;
  const devices = first?.room.devices ?? 0;
  const isAlike = tasks.every((task) => {
    return task.tables.length === steps && task.room.devices === devices;
  });
  if (isAlike && devices > 0) return { steps, devices };
  throw new RangeError("Expected tasks of one number of tables and one of devices");
}

/**
 * Returns a function that orders the tables of a task by descending predicted cost alone on a
 * device. `share` is the even share per device of their costs of lookup and update.
 */
function orders({ model, costVectors }: KnownPool) {
  const known = new Map<PlacementTask, { order: readonly number[]; share: number }>();
  return (task: PlacementTask) => {
    const found = known.get(task);
    if (found !== undefined) return found;
    const { tables, room } = task;
    const heads = model.names.length;
    const tableVectors = new Float32Array(tables.length * vectorColumns);
    for (const [i, table] of tables.entries()) addVector(tableVectors, i, costVectors, table);
    const costs = model.deviceCosts(tables.length)(tableVectors);
    const all = [...tables.keys()].sort(
      (a, b) => sumAt(costs, heads, b) - sumAt(costs, heads, a) || a - b,
    );
    const compute = all.reduce((sum, i) => sum + Math.max(0, costs[i * heads] ?? 0), 0);
    const made = { order: all.map((i) => tables[i] ?? 0), share: compute / room.devices };
    known.set(task, made);
    return made;
  };
}

/** The sum of the costs of a row. */
export function sumAt(costs: Float32Array, heads: number, row: number): number {
  let sum = 0;
  for (let head = 0; head < heads; head++) sum += costs[row * heads + head] ?? 0;
  return sum;
}

/** sums[row] += vectors[from] */
function addVector(sums: Float32Array, row: number, vectors: Float32Array, from: number): void {
  const [to, start] = [row * vectorColumns, from * vectorColumns];
  for (let i = 0; i < vectorColumns; i++) {
    sums[to + i] = (sums[to + i] ?? 0) + (vectors[start + i] ?? 0);
  }
}

/** A policy reads costs in tenths of the even share per device, within ±10. */
const shareParts = 10;
const relativeMax = 10;

/**
 * Writes the costs (D C) of an episode's devices relative to their means, in tenths of the share.
 */
function writeRelative(out: Float32Array, costs: Float32Array, heads: number, share: number): void {
  const devices = costs.length / heads;
  for (let head = 0; head < heads; head++) {
    let mean = 0;
    for (let i = head; i < costs.length; i += heads) mean += (costs[i] ?? 0) / devices;
    for (let i = head; i < costs.length; i += heads) {
      const above = (shareParts * ((costs[i] ?? 0) - mean)) / Math.max(share, 1e-6);
      out[i] = Math.max(-relativeMax, Math.min(relativeMax, above));
    }
  }
}

/**
 * The softmax of the scores over the devices with room, in a step whose rows begin at `first`; 0
 * for devices without room.
 */
export function probabilities(
  scores: Float32Array,
  hasRoom: Uint8Array,
  first: number,
  devices: number,
): Float64Array {
  const shares = new Float64Array(devices);
  let largest = Number.NEGATIVE_INFINITY;
  for (let device = 0; device < devices; device++) {
    if (hasRoom[first + device] === 1) largest = Math.max(largest, scores[first + device] ?? 0);
  }
  let sum = 0;
  for (let device = 0; device < devices; device++) {
    if (hasRoom[first + device] !== 1) continue;
    shares[device] = Math.exp((scores[first + device] ?? 0) - largest);
    sum += shares[device] ?? 0;
  }
  return shares.map((share) => share / sum);
}

/**
 * Chooses a device with room: drawn with `random`, else the most probable. -1: no device has room.
 */
function chosenOf(
  scores: Float32Array,
  hasRoom: Uint8Array,
  first: number,
  devices: number,
  random: RandomStream | undefined,
): number {
  const shares = probabilities(scores, hasRoom, first, devices);
  const drawn = random?.uniform();
  let last = -1;
  let best = 0;
  let below = 0;
  for (let device = 0; device < devices; device++) {
    const share = shares[device] ?? 0;
    if (hasRoom[first + device] !== 1) continue;
    below += share;
    if (drawn !== undefined && drawn < below) return device;
    if (drawn !== undefined || last < 0 || share > best) last = device;
    best = Math.max(best, share);
  }
  return last;
}

/** The device with the fewest bytes in `held`, among `devices` devices from index `first`. */
function emptiestOf(held: Float64Array, first: number, devices: number): number {
  let best = 0;
  for (let device = 1; device < devices; device++) {
    if ((held[first + device] ?? 0) < (held[first + best] ?? 0)) best = device;
  }
  return best;
}

/** Weight of the entropy in the loss of a choice. */
export const usualEntropyWeight = 1e-3;

/**
 * Returns the loss of a choice with these probabilities: -advantage * log probability -
 * entropyWeight * entropy. Writes its gradient, divided by `count`, to dScores from `first` on.
 */
export function choiceLoss(
  dScores: Float32Array,
  first: number,
  shares: Float64Array,
  of: {
    readonly action: number;
    readonly advantage: number;
    readonly entropyWeight: number;
    readonly count: number;
  },
): number {
  const { action, advantage, entropyWeight, count } = of;
  const entropy = shares.reduce((sum, own) => (own > 0 ? sum - own * Math.log(own) : sum), 0);
  for (const [device, share] of shares.entries()) {
    if (share === 0) continue;
    const chosen = device === action ? 1 : 0;
    const d = advantage * (share - chosen) + entropyWeight * share * (Math.log(share) + entropy);
    dScores[first + device] = d / count;
  }
  return -advantage * Math.log(shares[action] ?? 0) - entropyWeight * entropy;
}

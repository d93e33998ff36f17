// DreamShard's estimated decision process (Zha et al., NeurIPS 2022, section 3.1): an episode
// places tables one by one, in descending order of cost. A state is the placement so far, with the
// costs that the cost network predicts; the reward is the predicted cost of the slowest device,
// negated. Nothing is measured on hardware: an episode takes some small matrix products.
//
// N = tables of the task, E = columns of a vector, D = devices, K = episodes in parallel.

import type { Kernels, RandomStream } from "../../../../internal.ts";
import type { TablesOfDevices } from "../../search/greedy.ts";
import { chosenOf, emptiestOf } from "../choices.ts";
import { type CostModel, deviceCostNames, vectorColumns } from "../cost-model.ts";
import { addVector, tellCosts } from "../device-sums.ts";
import type { PlacementTask } from "../table-pool.ts";
import type { Policy } from "./policy.ts";

/**
 * The networks and their results for a pool of tables, shared by all episodes with the same
 * weights.
 */
export interface KnownPool {
  readonly model: CostModel;
  readonly policy: Policy;
  /** The cost network's vectors of the pool's tables, row by row. */
  readonly costVectors: Float32Array;
  readonly policyVectors: Float32Array;
  readonly bytes: readonly number[];
  /** Whether the policy reads the predicted costs; otherwise it reads zeros. */
  readonly hasCosts: boolean;
}

/** Episodes of one task, played in parallel. */
export interface PlayedEpisodes {
  /** Tables of the pool, in the order in which they were placed. */
  readonly order: readonly number[];
  /** The plan of each episode, by tables of the pool. */
  readonly placed: readonly TablesOfDevices[];
  /** Predicted cost of each plan's slowest device, in the cost network's unit. */
  readonly costs: Float32Array;
  /** By step, episode (N K): the chosen device. */
  readonly actions: Int32Array;
  /** By step, episode, device (N K D): whether the table fits. */
  readonly hasRoom: Uint8Array;
  /** By step, episode, device (N K D 3): the costs that the policy read. */
  readonly seen: Float32Array;
  /** Whether all tables of the plan fit. */
  readonly isWhole: readonly boolean[];
}

const costsOfDevice = deviceCostNames.length;

/**
 * Plays `count` episodes. Devices are drawn from the policy's probabilities; without `random`, the
 * most probable device is taken. A table that fits nowhere goes to the emptiest device, and the
 * plan is not whole.
 */
export function playEpisodes(
  kernels: Kernels,
  known: KnownPool,
  task: PlacementTask,
  count: number,
  random?: RandomStream,
): PlayedEpisodes {
  const { model, policy, costVectors, policyVectors, bytes, hasCosts } = known;
  const { devices, bytes: bytesMax } = task.room;
  const { order, alone } = orderOf(known, task.tables);
  const rows = count * devices;
  const share = alone / devices;
  const scoresOf = policy.scores(rows);
  const costsOf = model.deviceCosts(count);
  const costSums = new Float32Array(rows * vectorColumns);
  const changed = new Float32Array(count * vectorColumns);
  const policySums = new Float32Array(rows * vectorColumns);
  const costs = new Float32Array(rows * costsOfDevice);
  const sums = kernels.tensor([rows, vectorColumns]);
  const own = kernels.tensor([rows, costsOfDevice]);
  const held = new Float64Array(rows);
  const isWhole = new Array<boolean>(count).fill(true);
  const placed = Array.from({ length: count }, () => {
    return Array.from({ length: devices }, (): number[] => []);
  });
  const actions = new Int32Array(order.length * count);
  const hasRoom = new Uint8Array(order.length * rows);
  const seen = new Float32Array(order.length * rows * costsOfDevice);

  for (const [step, table] of order.entries()) {
    const size = bytes[table] ?? 0;
    for (let row = 0; row < rows; row++) {
      hasRoom[step * rows + row] = (held[row] ?? 0) + size <= bytesMax ? 1 : 0;
    }
    if (hasCosts) {
      const told = seen.subarray(step * rows * costsOfDevice);
      tellCosts(told, costs, { devices, heads: costsOfDevice, share });
    }
    kernels.write(sums, policySums);
    kernels.write(
      own,
      seen.subarray(step * rows * costsOfDevice, (step + 1) * rows * costsOfDevice),
    );
    const scores = scoresOf({ sums, costs: own });
    for (let episode = 0; episode < count; episode++) {
      const first = episode * devices;
      const room = hasRoom.subarray(step * rows, (step + 1) * rows);
      const chosen = chosenOf(scores, room, first, devices, random);
      if (chosen < 0) isWhole[episode] = false;
      const device = chosen < 0 ? emptiestOf(held, first, devices) : chosen;
      if (chosen < 0) room[first + device] = 1;
      actions[step * count + episode] = device;
      placed[episode]?.[device]?.push(table);
      held[first + device] = (held[first + device] ?? 0) + size;
      addVector(policySums, first + device, policyVectors, table);
      addVector(costSums, first + device, costVectors, table);
      const at = (first + device) * vectorColumns;
      changed.set(costSums.subarray(at, at + vectorColumns), episode * vectorColumns);
    }
    const next = costsOf(changed);
    for (let episode = 0; episode < count; episode++) {
      const row = episode * devices + (actions[step * count + episode] ?? 0);
      const from = episode * costsOfDevice;
      costs.set(next.subarray(from, from + costsOfDevice), row * costsOfDevice);
    }
  }
  return { order, placed, costs: slowest(costs, devices), actions, hasRoom, seen, isWhole };
}

/**
 * Orders the tables by descending predicted cost alone on a device; `alone` is the sum of their
 * compute costs.
 */
function orderOf({ model, costVectors }: KnownPool, tables: readonly number[]) {
  const vectors = new Float32Array(tables.length * vectorColumns);
  for (const [i, table] of tables.entries()) addVector(vectors, i, costVectors, table);
  const costs = model.deviceCosts(tables.length)(vectors);
  const costOf = (i: number) => sumOf(costs, i);
  const order = [...tables.keys()].sort((a, b) => costOf(b) - costOf(a) || a - b);
  const alone = order.reduce((sum, i) => sum + Math.max(0, costs[i * costsOfDevice] ?? 0), 0);
  return { order: order.map((i) => tables[i] ?? 0), alone };
}

/** The sum of the three costs of a row. */
function sumOf(costs: Float32Array, row: number): number {
  let sum = 0;
  for (let k = 0; k < costsOfDevice; k++) sum += costs[row * costsOfDevice + k] ?? 0;
  return sum;
}

/** The cost of the slowest device of each episode. */
function slowest(costs: Float32Array, devices: number): Float32Array {
  const all = new Float32Array(costs.length / costsOfDevice / devices);
  for (const episode of all.keys()) {
    let most = Number.NEGATIVE_INFINITY;
    for (let device = 0; device < devices; device++) {
      most = Math.max(most, sumOf(costs, episode * devices + device));
    }
    all[episode] = most;
  }
  return all;
}

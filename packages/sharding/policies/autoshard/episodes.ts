// AutoShard's decision process (Zha et al., KDD 2022, section 3.1): an episode places tables one by
// one, in descending order of the cost network's costs. The reward follows the last table, and is
// the balance of the plan: the cost of the fastest device over that of the slowest.
//
// T = tables of a task, E = columns of a vector, D = devices, B = episodes in parallel.

import type { Kernels, RandomStream } from "../../../../internal.ts";
import type { TablesOfDevices } from "../../search/greedy.ts";
import { chosenOf, emptiestOf, probabilities } from "../choices.ts";
import { type CostModel, vectorColumns } from "../cost-model.ts";
import { addVector, tellCosts } from "../device-sums.ts";
import type { PlacementTask } from "../table-pool.ts";
import { type AutoNetwork, deviceNumbers } from "./network.ts";

/**
 * The networks and their results for a pool of tables, shared by all episodes with the same
 * weights.
 */
export interface AutoPool {
  readonly model: CostModel;
  readonly network: AutoNetwork;
  /** The cost network's vectors of the pool's tables, row by row. */
  readonly vectors: Float32Array;
  readonly bytes: readonly number[];
  /** Whether the network reads the predicted costs; otherwise it reads zeros. */
  readonly hasCosts: boolean;
}

/** Episodes of B tasks with equal numbers of tables and devices, played in parallel. */
export interface AutoEpisodes {
  /** The plan of each episode, by tables of the pool. */
  readonly placed: readonly TablesOfDevices[];
  /** Whether all tables of the plan fit. */
  readonly isWhole: readonly boolean[];
  /** By step, episode (T B): the chosen device; `odds`: its probability. */
  readonly actions: Int32Array;
  readonly odds: Float64Array;
  /** By step, episode, device (T B D): whether the table fits. */
  readonly hasRoom: Uint8Array;
  /** Inputs of the network: (T B E), (T B), (T B D E), (T B D 2). */
  readonly seen: {
    readonly tables: Float32Array;
    readonly placed: Float32Array;
    readonly sums: Float32Array;
    readonly numbers: Float32Array;
  };
}

/** The cost that AutoShard predicts and balances. */
export const autoCostNames = ["compute"] as const;

/** Unit of a device's bytes as input of the network: GiB. */
const bytesUnit = 2 ** 30;

/**
 * Plays an episode of each task. Devices are drawn from the network's probabilities; without
 * `random`, the most probable device is taken. A table that fits nowhere goes to the emptiest
 * device, and the plan is not whole.
 */
export function playAuto(
  kernels: Kernels,
  known: AutoPool,
  tasks: readonly PlacementTask[],
  random?: RandomStream,
): AutoEpisodes {
  const { steps, devices } = shapeOf(tasks);
  const episodes = tasks.length;
  const rows = episodes * devices;
  const pass = known.network.pass({ steps, episodes, devices, isPlayed: true });
  const orders = tasks.map((task) => orderOf(known, task));
  const costsOf = known.model.deviceCosts(episodes);
  const tensors = {
    tables: kernels.tensor([episodes, vectorColumns]),
    placed: kernels.tensor([episodes, 1]),
    sums: kernels.tensor([rows, vectorColumns]),
    numbers: kernels.tensor([rows, deviceNumbers]),
  };
  const seen = {
    tables: new Float32Array(steps * episodes * vectorColumns),
    placed: new Float32Array(steps * episodes),
    sums: new Float32Array(steps * rows * vectorColumns),
    numbers: new Float32Array(steps * rows * deviceNumbers),
  };
  const now = beginning(episodes, devices);
  const actions = new Int32Array(steps * episodes);
  const odds = new Float64Array(steps * episodes);
  const hasRoom = new Uint8Array(steps * rows);
  const isWhole = new Array<boolean>(episodes).fill(true);
  const placed = tasks.map(() => Array.from({ length: devices }, (): number[] => []));

  for (let step = 0; step < steps; step++) {
    const room = hasRoom.subarray(step * rows, (step + 1) * rows);
    const partOf = (of: Float32Array) => {
      return of.subarray((step * of.length) / steps, ((step + 1) * of.length) / steps);
    };
    const parts = {
      tables: partOf(seen.tables),
      placed: partOf(seen.placed),
      sums: partOf(seen.sums),
      numbers: partOf(seen.numbers),
    };
    for (const [episode, { order, share }] of orders.entries()) {
      const table = order[step] ?? 0;
      addVector(parts.tables, episode, known.vectors, table);
      parts.placed[episode] = step / steps;
      const first = episode * devices;
      const own = (of: Float32Array) => of.subarray(first, first + devices);
      if (known.hasCosts) tellCosts(own(now.told), own(now.costs), { devices, heads: 1, share });
      for (let row = first; row < first + devices; row++) {
        parts.numbers[row * deviceNumbers] = now.told[row] ?? 0;
        parts.numbers[row * deviceNumbers + 1] = (now.held[row] ?? 0) / bytesUnit;
        const bytes = (now.held[row] ?? 0) + (known.bytes[table] ?? 0);
        room[row] = bytes <= (tasks[episode]?.room.bytes ?? 0) ? 1 : 0;
      }
    }
    parts.sums.set(now.sums);
    for (const name of ["tables", "placed", "sums", "numbers"] as const) {
      kernels.write(tensors[name], parts[name]);
    }
    const scores = pass.scores(step, tensors);
    for (const [episode, { order }] of orders.entries()) {
      const table = order[step] ?? 0;
      const first = episode * devices;
      const chosen = chosenOf(scores, room, first, devices, random);
      if (chosen < 0) isWhole[episode] = false;
      const device = chosen < 0 ? emptiestOf(now.held, first, devices) : chosen;
      if (chosen < 0) room[first + device] = 1;
      actions[step * episodes + episode] = device;
      const share = probabilities(scores, room, first, devices)[device] ?? 0;
      odds[step * episodes + episode] = share;
      placed[episode]?.[device]?.push(table);
      const row = first + device;
      now.held[row] = (now.held[row] ?? 0) + (known.bytes[table] ?? 0);
      addVector(now.sums, row, known.vectors, table);
      const sum = now.sums.subarray(row * vectorColumns, (row + 1) * vectorColumns);
      now.changed.set(sum, episode * vectorColumns);
    }
    const next = costsOf(now.changed);
    for (let episode = 0; episode < episodes; episode++) {
      const row = episode * devices + (actions[step * episodes + episode] ?? 0);
      now.costs[row] = next[episode] ?? 0;
    }
  }
  return { placed, isWhole, actions, odds, hasRoom, seen };
}

/** The state of the devices before the first step. */
function beginning(episodes: number, devices: number) {
  const rows = episodes * devices;
  return {
    sums: new Float32Array(rows * vectorColumns),
    /** Sums of the device that each episode chose last. */
    changed: new Float32Array(episodes * vectorColumns),
    costs: new Float32Array(rows),
    told: new Float32Array(rows),
    held: new Float64Array(rows),
  };
}

function shapeOf(tasks: readonly PlacementTask[]): { steps: number; devices: number } {
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
 * Orders the tables by descending predicted cost; `share` is the even share of these costs per
 * device.
 */
function orderOf({ model, vectors }: AutoPool, { tables, room }: PlacementTask) {
  const own = new Float32Array(tables.length * vectorColumns);
  for (const [i, table] of tables.entries()) addVector(own, i, vectors, table);
  const costs = model.deviceCosts(tables.length)(own);
  const order = [...tables.keys()].sort((a, b) => (costs[b] ?? 0) - (costs[a] ?? 0) || a - b);
  const all = costs.reduce((sum, cost) => sum + Math.max(0, cost), 0);
  return { order: order.map((i) => tables[i] ?? 0), share: all / room.devices };
}

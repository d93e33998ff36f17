// The tables, tasks and costs with which policies are trained and tested, and their trainings.
// Tables are published ones; training and test of DreamShard draw from disjoint halves of them, so
// that a policy saw no table of a test. Instead of hardware, cost networks supply the costs of
// plans: they were trained on measurements of a fork of NeuroShard on processors (published.ts).

import { resolve } from "node:path";
import type { Kernels } from "../../../../src/kernels/contract/kernels.ts";
import { purposes, RandomStream } from "../../../../src/ports/random.ts";
import { readCostNetworks } from "../../files/cost-networks-file.ts";
import { type AutoOptions, trainAutoShard } from "../../policies/autoshard/train-autoshard.ts";
import { type DreamOptions, trainDreamShard } from "../../policies/dreamshard/train-dreamshard.ts";
import type { PlacementPolicy } from "../../policies/placement-policy.ts";
import {
  dealt,
  type PlacementTask,
  type PolicySubject,
  type SizedTable,
} from "../../policies/table-pool.ts";
import { networkCosts } from "../../search/cost-networks.ts";
import type { TablesOfDevices } from "../../search/greedy.ts";
import { publishedTables } from "../published.ts";

/** Tables of a DreamShard task, by devices: DLRM-20 to DLRM-100, and twice as many. */
export const dreamSizes = {
  4: [20, 40, 60, 80, 100],
  8: [40, 80, 120, 160, 200],
} as const;

export type DreamDevices = keyof typeof dreamSizes;

/** Tasks of each size, for training and for test. */
const tasksOfSize = 50;
const columns = 16;
/** Bytes of a float16. */
const weightBytes = 2;
/** Memory of the 2080 Ti of both papers. */
const deviceBytes = 11 * 2 ** 30;
/** The seed of the halves and tasks: policies of any seed are tested on the same tasks. */
const drawSeed = 1;

/**
 * DreamShard's subject (Zha et al., NeurIPS 2022, section 4.1): tables of 16 columns in float16 on
 * 4 or 8 devices, the half for training or for test, with tasks in order of size.
 */
export function dreamSubject(
  home: string,
  devices: DreamDevices,
  part: "train" | "test",
): PolicySubject {
  const half = halfOf(home, part);
  const random = new RandomStream(drawSeed, purposes.policyTasks, part === "train" ? 1 : 2);
  const tasks = dreamSizes[devices].flatMap((count) => {
    return Array.from({ length: tasksOfSize }, () => {
      return { tables: dealt(half.length, count, random), room: { devices, bytes: deviceBytes } };
    });
  });
  return { tables: half, tasks, measure: networkCosts(oracleOf(devices), half) };
}

/** A half of the published tables, with 16 columns. */
function halfOf(home: string, part: "train" | "test"): SizedTable[] {
  const all = publishedTables(home).map((table): SizedTable => {
    return { ...table, dim: columns, bytes: table.rows * columns * weightBytes };
  });
  const order = dealt(all.length, all.length, new RandomStream(drawSeed, purposes.policyTasks));
  const half = Math.floor(all.length / 2);
  const chosen = part === "train" ? order.slice(0, half) : order.slice(half);
  return chosen.map((index) => all[index] as SizedTable);
}

function oracleOf(devices: number) {
  const path = resolve("packages/sharding/bench/networks", `cpu-${devices}.safetensors`);
  return readCostNetworks(path).networks;
}

/** Tables and devices of an AutoShard task. */
export interface AutoSize {
  readonly tables: number;
  readonly devices: number;
}

/** The size of the tasks of a training. */
export const autoSize: AutoSize = { tables: 80, devices: 8 };

const autoWidths = [16, 32] as const;
/** Number of tasks for training and test: from all tables, and from the two halves. */
const autoTasks = { train: 90, test: 50, trainHalf: 90, testHalf: 50 } as const;
const streamOf = { train: 6, test: 5, trainHalf: 3, testHalf: 4 } as const;

/**
 * AutoShard's subject (Zha et al., KDD 2022, section 4.1): tables of 16 and 32 columns in float16,
 * and tasks that have each of their tables once. The paper draws the tasks of training and test
 * from all tables (gen_dlrm_data.py of its repository, without `--transfer`). So does this
 * function, which also draws tasks from the halves, for a policy that never saw a test's tables.
 */
export function autoSubject(
  home: string,
  part: keyof typeof autoTasks,
  { tables: count, devices }: AutoSize,
): PolicySubject {
  const narrow = [
    ...(part === "testHalf" ? [] : halfOf(home, "train")),
    ...(part === "trainHalf" ? [] : halfOf(home, "test")),
  ];
  const tables = autoWidths.flatMap((dim) => {
    return narrow.map((table) => ({ ...table, dim, bytes: (table.bytes / table.dim) * dim }));
  });
  const random = new RandomStream(drawSeed, purposes.policyTasks, streamOf[part]);
  const tasks = Array.from({ length: autoTasks[part] }, (): PlacementTask => {
    // A task of more tables than there are has some with both widths.
    const isLarge = count > narrow.length;
    const drawn = isLarge
      ? dealt(tables.length, count, random)
      : dealt(narrow.length, count, random).map((i) => i + random.below(2) * narrow.length);
    return { tables: drawn, room: { devices, bytes: deviceBytes } };
  });
  const costs = networkCosts(oracleOf(autoSize.devices), tables);
  const measure = (placed: TablesOfDevices) => {
    // The networks take eight devices at a time; the costs of exchanges are not used.
    return Array.from({ length: Math.ceil(placed.length / autoSize.devices) }, (_, chunk) => {
      const chunkPlaced = placed.slice(chunk * autoSize.devices, (chunk + 1) * autoSize.devices);
      const whole = Array.from({ length: autoSize.devices }, (_, i) => chunkPlaced[i] ?? []);
      return costs(whole).slice(0, chunkPlaced.length);
    }).flat();
  };
  return { tables, tasks, measure };
}

interface TrainingOptions {
  /** The directory of the published tables. */
  readonly data: string;
  /** Prints a line of progress. */
  readonly say?: (line: string) => void;
}

/** Trains a DreamShard policy with the tasks of all sizes for a number of devices. */
export function trainDream(
  kernels: Kernels,
  devices: DreamDevices,
  { data, say, ...options }: TrainingOptions & Pick<DreamOptions, "seed" | "hasCosts" | "turns">,
): PlacementPolicy {
  return trainDreamShard(kernels, dreamSubject(data, devices, "train"), {
    ...options,
    onTurn: ({ turn, measured, costLoss }) => {
      const cost = measured === undefined ? "no plan fits" : `${measured.toFixed(0)} ms a plan`;
      say?.(`  turn ${turn + 1}: ${cost}, cost network's loss ${costLoss.toExponential(2)}`);
    },
  });
}

/** Updates between two lines of a training. */
const updatesOfLine = 25;

/** Trains an AutoShard policy; `isHalf`: with one half of the tables, so that a test has others. */
export function trainAuto(
  kernels: Kernels,
  {
    data,
    isHalf = false,
    say,
    ...options
  }: TrainingOptions & { readonly isHalf?: boolean } & Pick<
      AutoOptions,
      "seed" | "hasCosts" | "updates"
    >,
): PlacementPolicy {
  let balances: number[] = [];
  return trainAutoShard(kernels, autoSubject(data, isHalf ? "trainHalf" : "train", autoSize), {
    ...options,
    onUpdate: ({ update, balance, costLoss }) => {
      balances.push(balance);
      if (balances.length < updatesOfLine) return;
      const mean = balances.reduce((sum, own) => sum + own, 0) / balances.length;
      const loss = costLoss.toExponential(2);
      say?.(`  update ${update + 1}: ${(100 * mean).toFixed(1)} % balance, cost loss ${loss}`);
      balances = [];
    },
  });
}

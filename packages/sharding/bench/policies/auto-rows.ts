// AutoShard on its own tasks: its training, and the balance and speed of its plans compared with
// greedy and random ones; then on unseen tables, and on ten times as many tables and devices,
// without any tuning. Instead of hardware, the cost networks that were trained on lookups and
// updates measured on eight processes (published.ts) supply the costs.

import { resolve } from "node:path";
import { type BenchRow, quantiles } from "../../../../bench/row.ts";
import type { Kernels } from "../../../../src/kernels/contract/kernels.ts";
import { readPolicy } from "../../files/policy-file.ts";
import {
  type AutoOptions,
  balanceOf,
  trainAutoShard,
} from "../../policies/autoshard/train-autoshard.ts";
import { networkCosts } from "../../policies/network-costs.ts";
import { type PlacementPolicy, placeByPolicy } from "../../policies/placement-policy.ts";
import type { SizedTable } from "../../policies/table-pool.ts";
import {
  type GreedyCost,
  greedyCosts,
  placeAtRandom,
  placeByCost,
  type TablesOfDevices,
} from "../../search/greedy.ts";
import { type AutoSize, autoTasks } from "./auto-tasks.ts";
import { oracleNetworks } from "./dream-rows.ts";

const own: AutoSize = { tables: 80, devices: 8 };

export interface AutoTrainingOptions extends Pick<AutoOptions, "seed" | "hasCosts" | "updates"> {
  readonly data: string;
  /** Whether to train on one half of the tables, keeping the other for tests. @default false */
  readonly isHalf?: boolean;
  readonly say?: (line: string) => void;
}

/** Updates between two lines of a training. */
const updatesOfLine = 25;

export function trainAuto(
  kernels: Kernels,
  { data, isHalf = false, say = () => {}, ...options }: AutoTrainingOptions,
): PlacementPolicy {
  const { tables, tasks } = autoTasks(data, isHalf ? "trainHalf" : "train", own);
  let balances: number[] = [];
  return trainAutoShard(
    kernels,
    { tables, tasks, measure: measureOf(tables) },
    {
      ...options,
      onUpdate: ({ update, balance, costLoss }) => {
        balances.push(balance);
        if (balances.length < updatesOfLine) return;
        const even = `${(100 * meanOf(balances)).toFixed(1)} % balance`;
        say(`  update ${update + 1}: ${even}, cost network's loss ${costLoss.toExponential(2)}`);
        balances = [];
      },
    },
  );
}

/** Costs of lookup and update on any number of devices, by the networks of eight. */
function measureOf(tables: readonly SizedTable[]) {
  const networks = oracleNetworks(own.devices);
  const costs = networkCosts(networks, tables);
  return (placed: TablesOfDevices) => {
    // The networks take eight devices at a time; the costs of exchanges are not used.
    return Array.from({ length: Math.ceil(placed.length / own.devices) }, (_, chunk) => {
      const part = placed.slice(chunk * own.devices, (chunk + 1) * own.devices);
      const whole = Array.from({ length: own.devices }, (_, i) => part[i] ?? []);
      return costs(whole).slice(0, part.length);
    }).flat();
  };
}

const greedyNames = Object.keys(greedyCosts) as GreedyCost[];
const others = [...greedyNames, "random"] as const;

/** Sizes of tasks, the set that their tables come from, and most tasks planned of each. */
const parts = [
  { name: "80", size: own, of: "test", tasksMax: 50 },
  { name: "80.unseen", size: own, of: "testHalf", tasksMax: 50 },
  { name: "160.unseen", size: { tables: 160, devices: 16 }, of: "testHalf", tasksMax: 20 },
  { name: "800", size: { tables: 800, devices: 80 }, of: "test", tasksMax: 3 },
  { name: "800.unseen", size: { tables: 800, devices: 80 }, of: "testHalf", tasksMax: 3 },
] as const;

/**
 * The paper's goals for 80 tables: balance in percent, and random placement's cost over the
 * policy's.
 */
const balanceMin = 85;
const speedUpMin = 1.65;
/** Most seconds to plan 800 tables. */
const secondsMax = 6;

/** The seed of the policies in ../networks, and of the ablations trained here. */
const seedOfNetworks = 1;

export interface AutoRowsOptions {
  readonly data: string;
  readonly tasks: number;
  /** Whether to train and compare policies without predicted costs: about two minutes more. */
  readonly hasAblations: boolean;
}

export function autoRowNames(hasAblations: boolean): string[] {
  const rows = ["balance", "speedUp", "seconds", ...(hasAblations ? ["noCosts"] : []), ...others];
  return parts.flatMap(({ name }) => rows.map((row) => `sharding.auto.${name}.${row}`));
}

export function autoRows(
  kernels: Kernels,
  { data, tasks, hasAblations }: AutoRowsOptions,
): BenchRow[] {
  const trained = (name: string, isHalf: boolean) => {
    const { policy } = readPolicy(
      resolve("packages/sharding/bench/networks", `${name}.safetensors`),
    );
    const options = { data, isHalf, seed: seedOfNetworks, hasCosts: false };
    return { policy, blind: hasAblations ? trainAuto(kernels, options) : undefined };
  };
  const policies = {
    test: trained("autoshard", false),
    testHalf: trained("autoshard-half", true),
  };
  const ways = ["policy", ...(hasAblations ? ["noCosts"] : []), ...others];
  return parts.flatMap(({ name, size, of, tasksMax }) => {
    const { policy, blind } = policies[of];
    const found = autoTasks(data, of, size);
    const measure = measureOf(found.tables);
    const outcomes = found.tasks.slice(0, Math.min(tasks, tasksMax)).map((task, index) => {
      const tables = task.tables.map((i) => found.tables[i] as SizedTable);
      const startMs = performance.now();
      const placed = placeByPolicy(kernels, policy, tables, task.room);
      const seconds = (performance.now() - startMs) / 1000;
      const plans = [
        placed,
        ...(blind === undefined ? [] : [placeByPolicy(kernels, blind, tables, task.room)]),
        ...greedyNames.map((cost) => placeByCost(tables, task.room, cost)),
        placeAtRandom(tables.length, size.devices, index),
      ];
      const costs = plans.map((plan) => {
        return measure((plan ?? []).map((held) => held.map((i) => task.tables[i] ?? 0)));
      });
      return {
        seconds,
        balances: costs.map((one) => 100 * balanceOf(one)),
        slowest: costs.map((one) => Math.max(...one.map(({ compute }) => compute))),
      };
    });
    return rowsOf(name, ways, outcomes);
  });
}

/** For each way: the balance of its plan, and the time of its slowest device. */
interface Outcome {
  readonly seconds: number;
  readonly balances: readonly number[];
  readonly slowest: readonly number[];
}

function rowsOf(size: string, ways: readonly string[], outcomes: readonly Outcome[]): BenchRow[] {
  const name = (row: string) => `sharding.auto.${size}.${row}`;
  const balanceOfWay = (way: number) => outcomes.map(({ balances }) => balances[way] ?? 0);
  const slowestOfWay = (way: number) => meanOf(outcomes.map(({ slowest }) => slowest[way] ?? 0));
  const chance = slowestOfWay(ways.length - 1);
  const row = (of: string, values: readonly number[], unit: string): BenchRow => {
    return { name: name(of), figure: meanOf(values), unit, spread: quantiles(values).spread };
  };
  const speedUp = chance / slowestOfWay(0);
  const seconds = row(
    "seconds",
    outcomes.map((outcome) => outcome.seconds),
    "s a plan",
  );
  const isGoal = size === "80";
  const balance = row("balance", balanceOfWay(0), "% (fastest over slowest device)");
  const faster = row("speedUp", [speedUp], "times as fast as chance");
  return [
    isGoal ? atLeast(balance, balanceMin) : balance,
    isGoal ? atLeast(faster, speedUpMin) : faster,
    size.startsWith("800")
      ? { ...seconds, limit: secondsMax, limitIs: "at most", ratio: seconds.figure / secondsMax }
      : seconds,
    ...ways.slice(1).map((way, i) => {
      const times = (chance / slowestOfWay(i + 1)).toFixed(2);
      return row(way, balanceOfWay(i + 1), `% balance (${times} times as fast as chance)`);
    }),
  ];
}

function atLeast(row: BenchRow, limit: number): BenchRow {
  return { ...row, limit, limitIs: "at least", ratio: row.figure / limit };
}

function meanOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

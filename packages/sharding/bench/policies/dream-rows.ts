// DreamShard on its own tasks: its training, and the costs of its plans for unseen tables compared
// with greedy and random ones. Instead of hardware, cost networks supply the costs in training and
// test: they were trained on measurements of a fork of NeuroShard on processors (published.ts).

import { resolve } from "node:path";
import { type BenchRow, quantiles } from "../../../../bench/row.ts";
import type { Kernels } from "../../../../src/kernels/contract/kernels.ts";
import { readCostNetworks } from "../../files/cost-networks-file.ts";
import { readPolicy } from "../../files/policy-file.ts";
import { type DreamOptions, trainDreamShard } from "../../policies/dreamshard/train-dreamshard.ts";
import { networkCosts } from "../../policies/network-costs.ts";
import { type PlacementPolicy, placeByPolicy } from "../../policies/placement-policy.ts";
import { type CostNetworks, slowestOf } from "../../search/cost-networks.ts";
import {
  type GreedyCost,
  greedyCosts,
  placeAtRandom,
  placeByCost,
  type TablesOfDevices,
} from "../../search/greedy.ts";
import { type DreamDevices, dreamSizes, dreamTasks } from "./dream-tasks.ts";

export interface DreamTrainingOptions extends Pick<DreamOptions, "seed" | "hasCosts" | "turns"> {
  readonly data: string;
  readonly say?: (line: string) => void;
}

/** Trains a policy with the tasks of all sizes for a number of devices. */
export function trainDream(
  kernels: Kernels,
  devices: DreamDevices,
  { data, say = () => {}, ...options }: DreamTrainingOptions,
): PlacementPolicy {
  const { tables, tasks } = dreamTasks(data, devices, "train");
  const measure = networkCosts(oracleNetworks(devices), tables);
  return trainDreamShard(
    kernels,
    { tables, tasks, measure },
    {
      ...options,
      onTurn: ({ turn, measured, costLoss }) => {
        const cost = `${measured.toFixed(0)} ms a measured plan`;
        say(`  turn ${turn + 1}: ${cost}, cost network's loss ${costLoss.toExponential(2)}`);
      },
    },
  );
}

export function oracleNetworks(devices: number): CostNetworks {
  const path = resolve("packages/sharding/bench/networks", `cpu-${devices}.safetensors`);
  return readCostNetworks(path).networks;
}

/**
 * The paper's speed-ups of DreamShard over random placement in percent (table 1), by devices and
 * tables.
 */
const publishedSpeedUps: Readonly<Record<DreamDevices, readonly number[]>> = {
  4: [30.7, 26.9, 21.3, 18.8, 21.5],
  8: [61.7, 56.5, 46.9, 38.9, 39.3],
};

/** Points that a speed-up may be below the paper's, as hardware and costs differ. */
const slack = 3;

/** Fewest of fifty tasks whose plan must cost no more than the best greedy one. */
const winsMin = 40;

const greedyNames = Object.keys(greedyCosts) as GreedyCost[];

/** The names of the rows for a number of devices. */
export function dreamRowNames(devices: DreamDevices): string[] {
  return dreamSizes[devices].flatMap((tables) =>
    ["cost", "faster", "wins", "plan", ...greedyNames, "random", ...noCosts(devices)].map((row) =>
      nameOf(devices, tables, row),
    ),
  );
}

/** The row of the policy without predicted costs, which exists for 4 devices. */
function noCosts(devices: DreamDevices): string[] {
  return devices === 4 ? ["noCosts"] : [];
}

function nameOf(devices: DreamDevices, tables: number, row: string): string {
  return `sharding.dream.${devices}.${tables}.${row}`;
}

export function dreamRows(
  kernels: Kernels,
  devices: DreamDevices,
  { data, tasks }: { readonly data: string; readonly tasks: number },
): BenchRow[] {
  const policyOf = (name: string) => {
    return readPolicy(resolve("packages/sharding/bench/networks", `${name}.safetensors`)).policy;
  };
  const policy = policyOf(`dreamshard-${devices}`);
  const blind = devices === 4 ? policyOf("dreamshard-4-no-costs") : undefined;
  const test = dreamTasks(data, devices, "test");
  const oracle = networkCosts(oracleNetworks(devices), test.tables);
  return dreamSizes[devices].flatMap((count, size) => {
    const own = test.tasks.filter((task) => task.tables.length === count).slice(0, tasks);
    const milliseconds: number[] = [];
    const outcomes = own.map((task, index) => {
      const tables = task.tables.map((i) => test.tables[i] as (typeof test.tables)[number]);
      const costOf = (placed: TablesOfDevices | undefined) => {
        if (placed === undefined) return Number.POSITIVE_INFINITY;
        return slowestOf(oracle(placed.map((held) => held.map((i) => task.tables[i] ?? 0))));
      };
      const by = (of: PlacementPolicy) => costOf(placeByPolicy(kernels, of, tables, task.room));
      const startMs = performance.now();
      const placed = placeByPolicy(kernels, policy, tables, task.room);
      milliseconds.push(performance.now() - startMs);
      const greedy = greedyNames.map((cost) => costOf(placeByCost(tables, task.room, cost)));
      return {
        cost: costOf(placed),
        greedy,
        random: costOf(placeAtRandom(count, devices, index)),
        noCosts: blind === undefined ? undefined : by(blind),
      };
    });
    return rowsOf(devices, count, outcomes, milliseconds, publishedSpeedUps[devices][size] ?? 0);
  });
}

interface Outcome {
  readonly cost: number;
  /** In the order of `greedyNames`. */
  readonly greedy: readonly number[];
  readonly random: number;
  readonly noCosts: number | undefined;
}

function rowsOf(
  devices: DreamDevices,
  tables: number,
  outcomes: readonly Outcome[],
  milliseconds: readonly number[],
  published: number,
): BenchRow[] {
  const name = (row: string) => nameOf(devices, tables, row);
  const ms = (row: string, values: readonly number[]): BenchRow => {
    const figure = meanOf(values);
    return { name: name(row), figure, unit: "ms", spread: quantiles(values).spread };
  };
  const random = ms(
    "random",
    outcomes.map((outcome) => outcome.random),
  );
  const cost = ms(
    "cost",
    outcomes.map((outcome) => outcome.cost),
  );
  const greedy = greedyNames.map((way, i) => {
    const row = ms(
      way,
      outcomes.map((outcome) => outcome.greedy[i] ?? 0),
    );
    return { ...row, unit: `ms (${percentAbove(random.figure, row.figure)} above chance)` };
  });
  const best = Math.min(...greedy.map(({ figure }) => figure));
  const faster = 100 * (random.figure / cost.figure - 1);
  const wins = outcomes.filter((outcome) => outcome.cost <= Math.min(...outcome.greedy)).length;
  const winsAtLeast = (winsMin / 50) * outcomes.length;
  const blind = outcomes.flatMap(({ noCosts }) => (noCosts === undefined ? [] : [noCosts]));
  return [
    { ...cost, limit: best, limitIs: "the best greedy", ratio: cost.figure / best },
    {
      ...{ name: name("faster"), figure: faster, unit: "% above chance", spread: [faster, faster] },
      ...{ limit: published - slack, limitIs: "at least", ratio: faster / (published - slack) },
    },
    {
      ...{ name: name("wins"), figure: wins, unit: `tasks of ${outcomes.length}` },
      ...{ limit: winsAtLeast, limitIs: "at least", ratio: wins / winsAtLeast },
      spread: [wins, wins],
    },
    { ...ms("plan", milliseconds), unit: "ms to plan a task" },
    ...greedy,
    random,
    ...(blind.length === 0
      ? []
      : [{ ...ms("noCosts", blind), unit: "ms (told no predicted costs)" }]),
  ];
}

function percentAbove(random: number, own: number): string {
  return `${(100 * (random / own - 1)).toFixed(1)} %`;
}

function meanOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

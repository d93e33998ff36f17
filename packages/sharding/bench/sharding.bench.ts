// Question: how much cheaper are learned plans than the best greedy ones, on the hundred official
// tasks of NeuroShard, with costs that were measured on processors? The cost networks predict the
// costs of plans, as in the paper's simulator; they also guide the search, which favours it. And
// how good are the plans of trained policies (policies/)? The networks' costs of their own plans
// are known to policies in training only.

import { resolve } from "node:path";
import { Option } from "commander";
import { type Bench, type Measurement, positiveOption, together } from "../../../bench/bench.ts";
import { type BenchRow, meanRow, quantiles } from "../../../bench/row.ts";
import { openKernels } from "../../../src/kernels/index.ts";
import { readCostNetworks } from "../files/cost-networks-file.ts";
import { type LearnedSearch, searchLearned } from "../search/beam-search.ts";
import { placedCost } from "../search/cost-networks.ts";
import {
  type GreedyCost,
  greedyCosts,
  mostBytes,
  placeAtRandom,
  placeByCost,
  type TablesOfDevices,
} from "../search/greedy.ts";
import { machineNames, machineRows, machineSeconds } from "./machine.ts";
import { autoRowNames, autoRows, dreamRowNames, dreamRows } from "./policies/policy-rows.ts";
import { hasPublished, publishedDevices, publishedHome, publishedTasks } from "./published.ts";
import { threadsNames, threadsRows, threadsSeconds } from "./threads.ts";

interface ShardingOptions {
  readonly data: string;
  readonly tasks: number;
  readonly memory: number;
  readonly sets: number;
  readonly seed: number;
  readonly costs?: string;
  readonly oracle?: string;
  readonly devices: number;
  readonly ablations: boolean;
}

export const shardingBench: Bench<ShardingOptions> = {
  question: "learned plans beside others: predicted on NeuroShard's tasks, measured on threads",
  options: [
    new Option("--data <directory>", "directory of the published tables and tasks").default(
      publishedHome,
    ),
    positiveOption("--tasks <count>", "how many of the hundred tasks, from the first on", 100),
    positiveOption("--memory <gib>", "memory of a device, in GiB", 4),
    positiveOption("--sets <count>", "random sets of tables that threads train", 20),
    positiveOption("--seed <number>", "of these sets", 727),
    positiveOption("--devices <count>", "threads that train these sets", 2),
    new Option(
      "--ablations",
      "also train AutoShard policies without predicted costs, and compare them",
    ).default(false),
    new Option(
      "--costs <file>",
      "cost file of `osiris plan --calibrate --learn`: also measures plans on threads",
    ),
    new Option(
      "--oracle <file>",
      "another cost file, which predicts the costs of plans for 4 and 8 devices (default: --costs)",
    ),
  ],
  measurements(options) {
    return [...officialTasks(options), ...policiesOf(options), ...threadsOf(options)];
  },
};

/** Measures plans of trained policies for tasks of the same tables. */
function policiesOf({ data, tasks: all, ablations }: ShardingOptions): Measurement[] {
  if (!hasPublished(data)) return [];
  const tasks = Math.min(50, all);
  const dreams = ([4, 8] as const).map((devices) => {
    return together(dreamRowNames(devices), 10, () => {
      return dreamRows(openKernels("auto"), devices, { data, tasks });
    });
  });
  const auto = together(autoRowNames(ablations), ablations ? 140 : 20, () => {
    return autoRows(openKernels("auto"), { data, tasks, hasAblations: ablations });
  });
  return [...dreams, auto];
}

/** Measures plans on threads of this machine, whose costs must have been learned before. */
function threadsOf({ costs, ...others }: ShardingOptions): Measurement[] {
  if (costs === undefined) return [];
  const options = { ...others, costs };
  return [
    together(threadsNames(options), threadsSeconds(options), () => threadsRows(options)),
    together(machineNames(), machineSeconds, () => machineRows(options)),
  ];
}

/** Predicts the costs of plans for the official tasks by the cost networks. */
function officialTasks(options: ShardingOptions): Measurement[] {
  if (!hasPublished(options.data)) return [];
  return publishedDevices.map((devices) => {
    const rows = [
      "valid",
      "whole",
      "published",
      "cost",
      "below",
      "seconds",
      ...greedyNames,
      "random",
    ];
    const names = rows.map((row) => `sharding.${devices}.${row}`);
    return together(names, options.tasks, () => shardingRows(devices, options));
  });
}

const greedyNames = Object.keys(greedyCosts) as GreedyCost[];

/** Least percent below the best greedy plan, by the number of devices. */
const targets: Readonly<Record<number, number>> = { 4: 20, 8: 32, 16: 32 };
const secondsMax = 2;

/** The plans of a task by each way; undefined where a way's plan does not fit. */
interface Outcome {
  readonly search: LearnedSearch;
  readonly seconds: number;
  readonly greedy: Readonly<Record<GreedyCost | "random", number | undefined>>;
}

export function shardingRows(
  devices: number,
  { data, tasks, memory }: Pick<ShardingOptions, "data" | "tasks" | "memory">,
): BenchRow[] {
  const path = resolve("packages/sharding/bench/networks", `cpu-${devices}.safetensors`);
  const { networks } = readCostNetworks(path);
  const room = { devices, bytes: memory * 2 ** 30 };
  const outcomes = publishedTasks(data)
    .slice(0, tasks)
    .map((tables, task): Outcome => {
      const startMs = performance.now();
      const search = searchLearned(networks, tables, room);
      const seconds = (performance.now() - startMs) / 1000;
      const costOf = (placed: TablesOfDevices | undefined) => {
        if (placed === undefined) return undefined;
        const tablesOfDevices = placed.map((indices) =>
          tables.filter((_, index) => indices.includes(index)),
        );
        return placedCost(networks, tablesOfDevices);
      };
      const random = placeAtRandom(tables.length, devices, task);
      const fits = mostBytes(tables, random) <= room.bytes;
      const greedy = Object.fromEntries(
        greedyNames.map((cost) => [cost, costOf(placeByCost(tables, room, cost))]),
      ) as Record<GreedyCost, number | undefined>;
      return { search, seconds, greedy: { ...greedy, random: fits ? costOf(random) : undefined } };
    });
  return summaryOf(devices, outcomes);
}

/** Means over the tasks for which every way except random placement has a plan. */
function summaryOf(devices: number, outcomes: readonly Outcome[]): BenchRow[] {
  const common = outcomes.filter(({ search, greedy }) => {
    return search.best !== undefined && greedyNames.every((name) => greedy[name] !== undefined);
  });
  const name = (row: string) => `sharding.${devices}.${row}`;
  const ms = (row: string, values: readonly (number | undefined)[]): BenchRow => {
    const known = values.filter((value) => value !== undefined);
    return meanRow(name(row), known, "ms");
  };
  const learned = ms(
    "cost",
    common.map(({ search }) => search.best?.cost),
  );
  const greedy = [...greedyNames, "random" as const].map((way) => {
    const all = common.map((outcome) => outcome.greedy[way]);
    const valid = outcomes.filter((outcome) => outcome.greedy[way] !== undefined).length;
    const row = ms(way, all);
    return { ...row, unit: `ms (${valid} of ${outcomes.length} tasks have room)` };
  });
  const best = Math.min(...greedy.slice(0, greedyNames.length).map(({ figure }) => figure));
  const below = 100 * (1 - learned.figure / best);
  const valid = outcomes.filter(({ search }) => search.best !== undefined).length;
  const share = 100 * (valid / outcomes.length);
  const seconds = outcomes.map((outcome) => outcome.seconds);
  const target = targets[devices] ?? 0;
  return [
    meanRow(name("valid"), [share], "% of the tasks"),
    ms(
      "whole",
      common.map(({ search }) => search.whole),
    ),
    ms(
      "published",
      common.map(({ search }) => search.published),
    ),
    { ...learned, limit: best, limitIs: "the best greedy", ratio: learned.figure / best },
    {
      ...meanRow(name("below"), [below], "% below the best greedy"),
      ...{ limit: target, limitIs: "at least", ratio: below / target },
    },
    {
      ...{ name: name("seconds"), figure: quantiles(seconds).median, unit: "s a task" },
      ...{ limit: secondsMax, limitIs: "at most", ratio: quantiles(seconds).median / secondsMax },
      spread: quantiles(seconds).spread,
    },
    ...greedy,
  ];
}

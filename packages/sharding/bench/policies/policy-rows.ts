// The plans of trained policies (../networks) for the tasks of their tests, beside greedy and
// random plans: DreamShard's by the cost of the slowest device, on unseen tables; AutoShard's by
// balance and speed, also on unseen tables, and on ten times as many tables and devices, without
// any tuning.

import { resolve } from "node:path";
import { type BenchRow, meanOf, meanRow } from "../../../../bench/row.ts";
import type { Kernels } from "../../../../src/kernels/contract/kernels.ts";
import { readPolicy } from "../../files/policy-file.ts";
import { balanceOf } from "../../policies/autoshard/train-autoshard.ts";
import { type PlacementPolicy, placeByPolicy } from "../../policies/placement-policy.ts";
import type { PolicySubject } from "../../policies/table-pool.ts";
import { type DeviceCosts, slowestOf } from "../../search/cost-networks.ts";
import { type GreedyCost, greedyCosts, placeAtRandom, placeByCost } from "../../search/greedy.ts";
import {
  autoSize,
  autoSubject,
  type DreamDevices,
  dreamSizes,
  dreamSubject,
  trainAuto,
} from "./subjects.ts";

const greedyNames = Object.keys(greedyCosts) as GreedyCost[];

/** The ways to place a task, by the names of their rows. `noCosts`: a policy without costs. */
type Way = "policy" | "noCosts" | GreedyCost | "random";

/** The costs of the devices in the plan of each way, without devices where no plan fits. */
interface Outcome {
  readonly costs: ReadonlyMap<Way, readonly DeviceCosts[]>;
  /** Duration of the placement by the policy. */
  readonly seconds: number;
}

function policyOf(name: string): PlacementPolicy {
  return readPolicy(resolve("packages/sharding/bench/networks", `${name}.safetensors`)).policy;
}

/** Places the tasks in each way. */
function outcomesOf(
  kernels: Kernels,
  { policy, blind }: { readonly policy: PlacementPolicy; readonly blind?: PlacementPolicy },
  { tables: all, tasks, measure }: PolicySubject,
): Outcome[] {
  return tasks.map(({ tables: own, room }, index): Outcome => {
    const tables = own.flatMap((i) => all[i] ?? []);
    const startMs = performance.now();
    const placed = placeByPolicy(kernels, policy, tables, room);
    const seconds = (performance.now() - startMs) / 1000;
    const plans = [
      ["policy", placed],
      ...(blind === undefined
        ? []
        : [["noCosts", placeByPolicy(kernels, blind, tables, room)] as const]),
      ...greedyNames.map((cost) => [cost, placeByCost(tables, room, cost)] as const),
      ["random", placeAtRandom(tables.length, room.devices, index)],
    ] as const;
    const costs = plans.map(([way, plan]) => {
      return [
        way,
        plan === undefined ? [] : measure(plan.map((on) => on.map((i) => own[i] ?? 0))),
      ] as const;
    });
    return { costs: new Map(costs), seconds };
  });
}

function atLeast(row: BenchRow, limit: number): BenchRow {
  return { ...row, limit, limitIs: "at least", ratio: row.figure / limit };
}

// DreamShard ----

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
/** Least share of tasks whose plan must cost no more than the best greedy one. */
const winsMin = 0.8;

/** The names of the rows for a number of devices; a policy without costs exists for 4 devices. */
export function dreamRowNames(devices: DreamDevices): string[] {
  const rows = ["cost", "faster", "wins", "plan", ...greedyNames, "random"];
  return dreamSizes[devices].flatMap((tables) => {
    return [...rows, ...(devices === 4 ? ["noCosts"] : [])].map((row) => {
      return `sharding.dream.${devices}.${tables}.${row}`;
    });
  });
}

/** The rows for a number of devices, of at most `tasks` tasks of each size. */
export function dreamRows(
  kernels: Kernels,
  devices: DreamDevices,
  { data, tasks }: { readonly data: string; readonly tasks: number },
): BenchRow[] {
  const policies = {
    policy: policyOf(`dreamshard-${devices}`),
    ...(devices === 4 && { blind: policyOf("dreamshard-4-no-costs") }),
  };
  const test = dreamSubject(data, devices, "test");
  return dreamSizes[devices].flatMap((count, size) => {
    const tasksOfCount = test.tasks.filter((task) => task.tables.length === count).slice(0, tasks);
    const outcomes = outcomesOf(kernels, policies, { ...test, tasks: tasksOfCount });
    const published = publishedSpeedUps[devices][size] ?? 0;
    return rowsOfDream(`sharding.dream.${devices}.${count}`, outcomes, published - slack);
  });
}

function rowsOfDream(name: string, outcomes: readonly Outcome[], fasterMin: number): BenchRow[] {
  const costOf = ({ costs }: Outcome, way: Way) => {
    const deviceCosts = costs.get(way) ?? [];
    return deviceCosts.length === 0 ? Number.POSITIVE_INFINITY : slowestOf(deviceCosts);
  };
  const all = (way: Way) => outcomes.map((outcome) => costOf(outcome, way));
  const ms = (row: string, way: Way, unit = "ms") => meanRow(`${name}.${row}`, all(way), unit);
  const random = ms("random", "random");
  const cost = ms("cost", "policy");
  const greedy = greedyNames.map((way) => {
    const above = (100 * (random.figure / meanOf(all(way)) - 1)).toFixed(1);
    return ms(way, way, `ms (${above} % above chance)`);
  });
  const best = Math.min(...greedy.map(({ figure }) => figure));
  const wins = outcomes.filter((outcome) => {
    return greedyNames.every((way) => costOf(outcome, "policy") <= costOf(outcome, way));
  });
  const faster = [100 * (random.figure / cost.figure - 1)];
  const isTested = outcomes.some(({ costs }) => costs.has("noCosts"));
  return [
    { ...cost, limit: best, limitIs: "the best greedy", ratio: cost.figure / best },
    atLeast(meanRow(`${name}.faster`, faster, "% above chance"), fasterMin),
    atLeast(
      meanRow(`${name}.wins`, [wins.length], `tasks of ${outcomes.length}`),
      winsMin * outcomes.length,
    ),
    meanRow(
      `${name}.plan`,
      outcomes.map(({ seconds }) => 1000 * seconds),
      "ms to plan a task",
    ),
    ...greedy,
    random,
    ...(isTested ? [ms("noCosts", "noCosts", "ms (without predicted costs)")] : []),
  ];
}

// AutoShard ----

/** Sizes of tasks, the set that their tables come from, and most tasks planned of each. */
const autoParts = [
  { name: "80", size: autoSize, of: "test", tasksMax: 50 },
  { name: "80.unseen", size: autoSize, of: "testHalf", tasksMax: 50 },
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
  const others = [...(hasAblations ? ["noCosts"] : []), ...greedyNames, "random"];
  return autoParts.flatMap(({ name }) => {
    const rows = ["balance", "speedUp", "seconds", ...others];
    return rows.map((row) => `sharding.auto.${name}.${row}`);
  });
}

/** The rows of all sizes, of at most `tasks` tasks of each. */
export function autoRows(
  kernels: Kernels,
  { data, tasks, hasAblations }: AutoRowsOptions,
): BenchRow[] {
  const trained = (name: string, isHalf: boolean) => {
    const options = { data, isHalf, seed: seedOfNetworks, hasCosts: false };
    const blind = hasAblations ? trainAuto(kernels, options) : undefined;
    return { policy: policyOf(name), ...(blind && { blind }) };
  };
  const policies = { test: trained("autoshard", false), testHalf: trained("autoshard-half", true) };
  return autoParts.flatMap(({ name, size, of, tasksMax }) => {
    const subject = autoSubject(data, of, size);
    const some = subject.tasks.slice(0, Math.min(tasks, tasksMax));
    return rowsOfAuto(name, outcomesOf(kernels, policies[of], { ...subject, tasks: some }));
  });
}

function rowsOfAuto(size: string, outcomes: readonly Outcome[]): BenchRow[] {
  const name = (row: string) => `sharding.auto.${size}.${row}`;
  const balances = (way: Way) => outcomes.map(({ costs }) => 100 * balanceOf(costs.get(way) ?? []));
  const slowest = (way: Way) => {
    return meanOf(
      outcomes.map(({ costs }) => {
        return Math.max(...(costs.get(way) ?? []).map(({ compute }) => compute));
      }),
    );
  };
  const speedUp = (way: Way) => slowest("random") / slowest(way);
  const seconds = meanRow(
    name("seconds"),
    outcomes.map((outcome) => outcome.seconds),
    "s a plan",
  );
  const balance = meanRow(name("balance"), balances("policy"), "% (fastest over slowest device)");
  const faster = meanRow(name("speedUp"), [speedUp("policy")], "times as fast as chance");
  const isGoal = size === "80";
  const others = [...(outcomes[0]?.costs.keys() ?? [])].filter((way) => way !== "policy");
  return [
    isGoal ? atLeast(balance, balanceMin) : balance,
    isGoal ? atLeast(faster, speedUpMin) : faster,
    size.startsWith("800")
      ? { ...seconds, limit: secondsMax, limitIs: "at most", ratio: seconds.figure / secondsMax }
      : seconds,
    ...others.map((way) => {
      const times = speedUp(way).toFixed(2);
      return meanRow(name(way), balances(way), `% balance (${times} times as fast as chance)`);
    }),
  ];
}

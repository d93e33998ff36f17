// Question: how long does it take to plan very many tables? Limit: five seconds, about as long as
// people wait at a prompt. Balance of the plan: mean load of a device over the largest load.

import { assessPlan } from "../../src/planner/assess.ts";
import { defaultConstants } from "../../src/planner/cost/constants.ts";
import type { Setting } from "../../src/planner/cost/cost.ts";
import { searchPlan } from "../../src/planner/search.ts";
import { schemes } from "../../src/planner/shards.ts";
import { RandomStream } from "../../src/ports/random.ts";
import { type Bench, positiveOption, together } from "../bench.ts";
import { type BenchRow, quantiles } from "../row.ts";

const secondsMax = 5;
const perHost = 8;

interface PlannerBenchOptions {
  readonly tables: number;
  readonly devices: number;
  readonly rounds: number;
}

export const plannerBench: Bench<PlannerBenchOptions> = {
  question: "seconds to find a plan for many tables of unequal size and popularity",
  options: [
    positiveOption("--tables <count>", "tables", 5000),
    positiveOption("--devices <count>", "devices, eight to a host", 128),
    positiveOption("--rounds <count>", "searches", 3),
  ],
  measurements(options) {
    const { tables, devices, rounds } = options;
    const name = `planner.${tables}.${devices}`;
    const names = [`${name}.search`, `${name}.balance`] as const;
    const secondsOfSearch = 3 * (tables / 5000) * (devices / 128);
    return [together(names, 1 + rounds * secondsOfSearch, () => plannerRows(names, options))];
  },
};

function plannerRows(
  [searchName, balanceName]: readonly [string, string],
  { tables, devices, rounds }: PlannerBenchOptions,
): BenchRow[] {
  const setting = settingOf(tables, Math.ceil(devices / perHost));
  const seconds: number[] = [];
  let balance = 0;
  for (let round = 0; round < rounds; round++) {
    const startMs = performance.now();
    const { best } = searchPlan(setting);
    seconds.push((performance.now() - startMs) / 1000);
    if (best === undefined) continue;
    const loads = assessPlan(setting, best.plan).devices.map(({ cost }) => cost);
    balance = loads.reduce((sum, load) => sum + load, 0) / loads.length / best.score;
  }
  const { median, spread } = quantiles(seconds);
  const limit = { limit: secondsMax, limitIs: "at most", ratio: median / secondsMax };
  return [
    { name: searchName, figure: median, unit: "s", ...limit, spread },
    { name: balanceName, figure: balance, unit: "mean/max", spread: [balance, balance] },
  ];
}

/** Tables of 32 to 256 columns; rows and pooling factors are lognormal. */
function settingOf(tables: number, hosts: number): Setting {
  const random = new RandomStream(1, 1);
  return {
    workload: {
      tables: Array.from({ length: tables }, (_, i) => ({
        name: `T${i}`,
        rows: Math.ceil(Math.exp(11 + 2 * random.normal())),
        dim: 32 * (1 + random.below(8)),
        rowBlocks: 8,
        poolingFactor: Math.max(1, Math.exp(1.5 + random.normal())),
        zipf: 1.05,
        weightBytes: 4,
        stateBytes: 0,
        rowBytes: 5,
        sumRounds: 1,
        schemes,
        tiers: ["memory"],
      })),
      batchSize: 65_536,
      denseParameters: 10_000_000,
      denseFlop: 60_000_000,
      denseActivations: 5000,
      denseOwnProducts: 20_000,
      denseLayers: 4,
      readers: 1,
    },
    devices: { hosts, perHost },
    constants: defaultConstants,
  };
}

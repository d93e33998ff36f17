// Question: does the planner know which of two plans is better? Limit: a perfect rank correlation,
// as far as repeated measurements agree.
//
// Predictions are from a data cache's statistics and constants measured just before: the planner
// knows as much of the ids as in a product's run. Plans are drawn at random. The measure is the
// processor time of a step on the busiest device: balanced plans make it small even on a busy
// machine, and with more devices than cores. The wall-clock time of a step is reported beside it.
// Only fast turns count. The highest possible figure follows from the agreement of even and odd
// turns: if r is the correlation of the two halves, 2r / (1 + r) is that of the whole (Spearman and
// Brown).

import { calibrate } from "../../packages/what-if/index.ts";
import { prepareCache } from "../../src/data/cache/prepare-cache.ts";
import { shapesOf } from "../../src/model/features.ts";
import { type Assessment, assessPlan } from "../../src/planner/assess.ts";
import { stages } from "../../src/planner/cost/cost.ts";
import { realDisk } from "../../src/ports/disk.ts";
import { RandomStream } from "../../src/ports/random.ts";
import { workloadOf } from "../../src/training/planning/workload.ts";
import { temporaryHome } from "../../storage/disk/temporary-home.ts";
import { type Bench, positiveOption, together } from "../bench.ts";
import { type BenchRow, quantiles, rankCorrelation } from "../row.ts";
import type { TrainThreadReport } from "../step/train-thread.ts";
import { randomPlan } from "./random-plan.ts";
import {
  kindsOfTables,
  type RankedTables,
  rankedJob,
  type TableKind,
  trainInTurns,
} from "./ranked-tables.ts";

interface PlansOptions {
  readonly seed: number;
}

export const plansBench: Bench<PlansOptions> = {
  question: "predicted beside measured work of random plans, on two devices and on four",
  options: [positiveOption("--seed <number>", "seed of tables, ids and plans", 727)],
  measurements({ seed }) {
    return (["skewed", "published"] as const).flatMap((kind) =>
      rankedDevices.map((devices) => {
        const names = planRankNames(kind, devices);
        return together(names, planRankSeconds, () => rankOfPlans(kind, devices, seed));
      }),
    );
  },
};

const plans = 20;
/** Turns of each plan, by the number of devices; with more than two, devices share a processor. */
const turnsOn = { 2: 10, 4: 6 } as const;
/** Steps of a turn. */
const turnSteps = 6;
/** Most elements of a replicated table: larger replicas would dominate the order of plans. */
const copiedMax = 2 ** 18;

const rankedDevices = [2, 4] as const;

type RankedDevices = (typeof rankedDevices)[number];

function rankName(kind: RankedTables, devices: RankedDevices): string {
  return `planner.rank.${kind}.${devices}`;
}

function planRankNames(kind: RankedTables, devices: RankedDevices): readonly string[] {
  const name = rankName(kind, devices);
  return [name, `${name}.wall`, ...Array.from({ length: plans }, (_, i) => `${name}.plan.${i}`)];
}

/** Time of the calibration, of allocating all plans' memory, and of the plans' turns. */
const planRankSeconds = 115;

/** A row for each measure's rank correlation, and one for each plan. */
async function rankOfPlans(
  kind: RankedTables,
  devices: RankedDevices,
  seed: number,
): Promise<BenchRow[]> {
  const random = new RandomStream(seed, 1);
  const kinds = kindsOfTables[kind](random);
  if (kinds === undefined) {
    console.error(`${rankName(kind, devices)} is left out: the file of its tables is missing.`);
    return [];
  }
  using home = temporaryHome("osiris-rank-");
  return await ranked(rankName(kind, devices), kinds, devices, random, home.path);
}

async function ranked(
  name: string,
  kinds: readonly TableKind[],
  devices: RankedDevices,
  random: RandomStream,
  home: string,
): Promise<BenchRow[]> {
  const job = rankedJob(kinds, random, home);
  const prepared = await prepareCache(job.data, shapesOf(job.model), realDisk);
  const { path: cache, idsMax, statistics } = prepared;
  const measure = { devices: 2, memoryBytes: 2 ** 33, source: "this bench", stepsOn: [1, 2] };
  const constants = await calibrate(measure);
  const workload = workloadOf(job, { statistics });
  const setting = { workload, devices: { hosts: 1, perHost: devices }, constants };
  const { tables } = job.model;
  const copied = tables.filter(({ rows, dim }) => rows * dim <= copiedMax);
  const copyable = new Set(copied.map((table) => table.name));
  // The chances differ from plan to plan, so that many or few tables are replicated or cut.
  const drawn = Array.from({ length: plans }, () => {
    const chances = { copied: random.uniform(), rows: random.uniform(), columns: random.uniform() };
    return randomPlan(tables, devices, random, { ...chances, copyable });
  });
  const turns = turnsOn[devices];
  const reports = await trainInTurns(drawn, job, { devices, cache, idsMax, turns, turnSteps });
  const assessed = drawn.map((plan) => assessPlan(setting, plan));
  return [
    rankRow(name, assessed.map(busiest), (half) => reports.map((own) => busyMs(own, half))),
    rankRow(
      `${name}.wall`,
      assessed.map(({ step }) => step),
      (half) => reports.map(([own]) => wallMs(own, half)),
    ),
    ...assessed.map((own, i) => planRow(`${name}.plan.${i}`, own, reports[i] ?? [])),
  ];
}

/** Predicted seconds of the device that works longest. */
function busiest({ devices }: Assessment): number {
  return devices.reduce((longest, { busy }) => Math.max(longest, busy), 0);
}

/** Even (0) or odd (1) turns; undefined: all turns. */
type Half = 0 | 1 | undefined;

/** Milliseconds of processor time of a step, on the busiest device. */
function busyMs(reports: readonly TrainThreadReport[], half?: Half): number {
  const ofHalf = (_: number, turn: number) => half === undefined || turn % 2 === half;
  return Math.max(...reports.map((own) => fast(own.busyMs.filter(ofHalf))));
}

/** Milliseconds of a step. */
function wallMs(report: TrainThreadReport | undefined, half?: Half): number {
  const counts = (_: number, i: number) => {
    const isOfHalf = half === undefined || Math.floor(i / turnSteps) % 2 === half;
    return i % turnSteps > 0 && isOfHalf;
  };
  return fast((report?.stepMs ?? []).filter(counts));
}

/** A measure's rank correlation with the prediction, and the limit that noise sets to it. */
function rankRow(
  name: string,
  predicted: readonly number[],
  measured: (half: Half) => readonly number[],
): BenchRow {
  const figure = rankCorrelation(predicted, measured(undefined));
  const halves = rankCorrelation(measured(0), measured(1));
  const reliability = (2 * halves) / (1 + halves);
  const limitIs = `two halves of the turns agree by ${halves.toFixed(3)}, so that all are reliable by ${reliability.toFixed(3)}`;
  const row = { name, figure, unit: "rank correlation", limit: 1, limitIs, ratio: figure };
  const isTarget = !name.endsWith(".wall");
  return { ...row, ...(isTarget && { target: [0.9, 1] as const }), spread: [figure, figure] };
}

/** A plan's measured and predicted work, by device, and the stages of its step. */
function planRow(name: string, own: Assessment, reports: readonly TrainThreadReport[]): BenchRow {
  const [figure, limit] = [busyMs(reports), 1000 * busiest(own)];
  const [worked, foreseen] = [
    reports.map((one) => fast(one.busyMs).toFixed(1)),
    own.devices.map(({ busy }) => (1000 * busy).toFixed(1)),
  ];
  const parts = stages
    .filter((stage) => own.stages[stage] > 0)
    .map((stage) => `${stage} ${(1000 * own.stages[stage]).toPrecision(2)}`);
  const wall = wallMs(reports[0]).toFixed(1);
  const limitIs =
    `devices ${worked.join(", ")} of ${foreseen.join(", ")} predicted; ` +
    `a step ${wall} of ${(1000 * own.step).toFixed(1)}: ${parts.join(", ")}`;
  const [first] = reports;
  const row = { name, figure, unit: "ms", limit, limitIs, ratio: figure / limit };
  return { ...row, spread: quantiles(first?.busyMs ?? []).spread, times: first?.times };
}

/** The 10th percentile, as other programs only make steps longer. */
function fast(ms: readonly number[]): number {
  return quantiles(ms).spread[0];
}

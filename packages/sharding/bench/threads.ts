// Measures learned plans on the threads of this machine: for random sets of tables, the time of
// each way's plans, and how well the cost networks predicted it. Two measures: the embedding part
// of a step (lookup, update and both exchanges of every table, by the kernels and exchange of a
// run), and whole steps of training. Both are the processor time of the busiest device, which other
// programs on the machine do not change; the wall-clock time of a step is reported too.
//
// Predictions are of the embedding part: by the networks that guide the learned search, and by the
// formulas that guide `osiris plan`, with constants that are measured just before.

import { rmSync } from "node:fs";
import { join } from "node:path";
import { machineKeyOf } from "../../../actors/threads/kept-constants.ts";
import { batchSize, trainInTurns } from "../../../bench/planner/ranked-tables.ts";
import { type BenchRow, meanOf, meanRow, quantiles, rankCorrelation } from "../../../bench/row.ts";
import { temporaryHome } from "../../../internal.ts";
import { assessPlan } from "../../../src/planner/assess.ts";
import type { MachineConstants } from "../../../src/planner/cost/constants.ts";
import type { Plan } from "../../../src/planner/shards.ts";
import { calibrate } from "../../what-if/index.ts";
import { readCostNetworks } from "../files/cost-networks-file.ts";
import { type CostNetworks, placedCost } from "../search/cost-networks.ts";
import { runProbes } from "../training/measure-costs.ts";
import { partsOf, plansOf, type ThreadSet, threadSet, type Way, ways } from "./thread-plans.ts";

export interface ThreadsOptions {
  /** Random sets of tables. */
  readonly sets: number;
  readonly seed: number;
  /** The cost file that `osiris plan --calibrate --learn` has written. */
  readonly costs: string;
  /** Threads that train. */
  readonly devices: number;
}

/** With more devices than these, whole steps use a simulated link between devices. */
const devicesOfMachine = 2;
const link = { bitsPerSecond: 10e9 };
/** Turns of each plan's training, and steps of a turn. */
const [turns, turnSteps] = [4, 5];
const columnsMax = 4096;
/** Passes over the embedding part before the trainings, and as many after them. */
const passesOfTurn = 4;

export const threadsSeconds = ({ sets }: ThreadsOptions) => 30 + 35 * sets;

const predictors = ["learned", "formulas"] as const;
type Predictor = (typeof predictors)[number];

export function threadsNames({ sets }: ThreadsOptions): string[] {
  return [
    ...ways.flatMap((way) => measures.map((measure) => `sharding.threads.${measure}.${way}`)),
    "sharding.threads.below",
    ...againstWays.map((way) => `sharding.threads.against.${way}`),
    "sharding.threads.rank.ceiling",
    "sharding.threads.rankInSets.ceiling",
    "sharding.threads.error.ceiling",
    ...predictors.flatMap((by) => {
      return ["rank", "rankInSets", "rankOfSteps", "error"].map(
        (row) => `sharding.threads.${row}.${by}`,
      );
    }),
    ...Array.from({ length: sets }, (_, set) =>
      ways.flatMap((way) => planRows.map((row) => `sharding.threads.${row}.${set}.${way}`)),
    ).flat(),
  ];
}

/** Ways whose plans are compared with learned plans, set by set. */
const againstWays = ["formulas", "torchrec"] as const;

const measures = ["embedding", "step", "wall"] as const;

/** Rows of a plan: against the prediction of the networks, and of the formulas. */
const planRows = ["plan", "formulas"] as const;

/** Predictions and measurements of a plan, in milliseconds. */
interface MeasuredPlan extends Readonly<Record<(typeof measures)[number], number>> {
  readonly way: Way;
  /** The embedding part by even passes, and by odd passes: two measurements of it. */
  readonly twice: readonly [number, number];
  readonly predicted: Readonly<Record<Predictor, number>>;
  /** Prediction by the formulas of the busiest device's whole work in a step. */
  readonly predictedStep: number;
}

/** Measures all sets. */
export async function threadsRows(options: ThreadsOptions): Promise<BenchRow[]> {
  using home = temporaryHome("osiris-sharding-threads-");
  const networks = networksOf(options);
  const constants = await calibrate({
    ...{ devices: devicesOfMachine, memoryBytes: 2 ** 33, source: "this bench" },
    stepsOn: [1, devicesOfMachine],
  });
  const sets: MeasuredPlan[][] = [];
  for (let index = 0; index < options.sets; index++) {
    const setHome = join(home.path, `set-${index}`);
    sets.push(await measuredSet({ ...options, index, home: setHome }, networks, constants));
    rmSync(setHome, { recursive: true, force: true });
    console.error(`Set ${index + 1} of ${options.sets} is measured.`);
  }
  return rowsOf(sets);
}

/** The networks of a cost file. @throws RangeError where the file is not for these threads */
function networksOf({ costs, devices }: ThreadsOptions): CostNetworks {
  const { networks, provenance } = readCostNetworks(costs);
  const here = JSON.stringify(machineKeyOf("auto"));
  if (networks.devices !== devices || networks.batchSize !== batchSize) {
    throw new RangeError(`Expected ${costs} to be of ${devices} devices, batches of ${batchSize}`);
  }
  if (provenance.machine !== here) {
    throw new RangeError(`Expected ${costs} to be of this machine, ${here}`);
  }
  return networks;
}

/** Predicts and measures the plans of one set. */
async function measuredSet(
  { seed, index, home, devices }: { seed: number; index: number; home: string; devices: number },
  networks: CostNetworks,
  constants: MachineConstants,
): Promise<MeasuredPlan[]> {
  const set = await threadSet({ seed, index, devices, home }, constants);
  const plans = plansOf(set, networks, seed + index);
  const all = [...plans.values()];
  // Passes before and after the trainings: minutes apart, as those of the learned costs are.
  const passes: number[][][] = [];
  const measured = async () => {
    for (let pass = 0; pass < passesOfTurn; pass++) passes.push(await embeddingMs(set, all));
  };
  await measured();
  const steps = await stepMs(set, all);
  await measured();
  return [...plans].map(([way, plan], i): MeasuredPlan => {
    const assessed = assessPlan(set.setting, plan).devices;
    const busiest = (of: "cost" | "busy") => 1000 * Math.max(...assessed.map((own) => own[of]));
    const placed = partsOf(set, plan).map((own) => own.map(({ table }) => table));
    const ofPasses = (odd: number) => {
      return slowest(passes.filter((_, pass) => pass % 2 === odd).map((pass) => pass[i] ?? []));
    };
    return {
      way,
      embedding: slowest(passes.map((pass) => pass[i] ?? [])),
      twice: [ofPasses(0), ofPasses(1)],
      ...(steps[i] ?? { step: Number.NaN, wall: Number.NaN }),
      predicted: { learned: placedCost(networks, placed), formulas: busiest("cost") },
      predictedStep: busiest("busy"),
    };
  });
}

/** Milliseconds of the slowest device, by the fastest pass of each device. */
function slowest(passes: readonly (readonly number[])[]): number {
  const [first = []] = passes;
  const least = first.map((_, device) => Math.min(...passes.map((pass) => pass[device] ?? 0)));
  return Math.max(...least);
}

/** Milliseconds of the embedding part of each plan, on each device. */
async function embeddingMs(set: ThreadSet, plans: readonly Plan[]): Promise<number[][]> {
  const devices = set.setting.devices.perHost;
  const parts = plans.map((plan) => partsOf(set, plan));
  const reports = await runProbes({
    ...{ devices, batchSize, columnsMax, arithmetic: "auto", lateMax: 0 },
    sets: Array.from({ length: devices }, (_, device) =>
      parts.map((own, index) => {
        return { index, tables: (own[device] ?? []).map(({ probed }) => probed) };
      }),
    ),
    exchanges: parts.map((own) => ({
      columns: own.map((held) => held.reduce((sum, { probed }) => sum + probed.dim, 0)),
      late: own.map(() => 0),
    })),
  });
  return plans.map((_, plan) => {
    return reports.map(({ sets, exchanges }) => {
      const { forward, backward } = exchanges[plan] ?? { forward: 0, backward: 0 };
      return (sets[plan] ?? 0) + forward + backward;
    });
  });
}

/** Milliseconds of whole steps of each plan; the trainings take turns. */
async function stepMs(
  { job, cache, idsMax, setting }: ThreadSet,
  plans: readonly Plan[],
): Promise<{ step: number; wall: number }[]> {
  const devices = setting.devices.perHost;
  const fast = (ms: readonly number[]) => quantiles(ms).spread[0];
  const reports = await trainInTurns(plans, job, {
    ...{ devices, cache, idsMax, turns, turnSteps },
    ...(devices > devicesOfMachine && { link }),
  });
  return reports.map((own) => ({
    step: Math.max(...own.map(({ busyMs }) => fast(busyMs))),
    wall: fast((own[0]?.stepMs ?? []).filter((_, i) => i % turnSteps > 0)),
  }));
}

/** How far learned plans cost less than a way's, as the mean over sets with its standard error. */
function againstRow(sets: readonly (readonly MeasuredPlan[])[], way: Way): BenchRow {
  const below = sets.map((set) => {
    const of = (own: Way) => set.find((plan) => plan.way === own)?.embedding ?? Number.NaN;
    return 100 * (1 - of("learned") / of(way));
  });
  const mean = meanOf(below);
  const squares = below.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  const error = Math.sqrt(squares / Math.max(1, below.length - 1) / below.length);
  const unit = `% below ${way}, mean of sets, standard error ${error.toFixed(2)}`;
  return meanRow(`sharding.threads.against.${way}`, below, unit);
}

/**
 * How well one half of the passes predicts the other half, for the same plans. No prediction can be
 * much better than that; compared with all passes it may be slightly better.
 */
function ceilingRows(sets: readonly (readonly MeasuredPlan[])[]): BenchRow[] {
  const rank = (plans: readonly MeasuredPlan[]) =>
    rankCorrelation(
      plans.map(({ twice }) => twice[0]),
      plans.map(({ twice }) => twice[1]),
    );
  const row = (name: string, values: readonly number[], unit: string) => {
    return meanRow(`sharding.threads.${name}.ceiling`, values, unit);
  };
  const errors = sets.flat().map(({ twice: [one, other] }) => 100 * Math.abs(one / other - 1));
  return [
    row("rank", [rank(sets.flat())], "rank correlation of two measurements, all plans"),
    row("rankInSets", sets.map(rank), "rank correlation of two measurements, plans of one set"),
    row("error", errors, "% mean absolute difference of two measurements"),
  ];
}

/** Rows of each way's means, of the quality of predictions, and of each plan. */
function rowsOf(sets: readonly (readonly MeasuredPlan[])[]): BenchRow[] {
  const ofWay = (way: Way) => sets.flatMap((set) => set.filter((plan) => plan.way === way));
  const means = measures.flatMap((measure) =>
    ways.map((way) => {
      const figures = ofWay(way).map((plan) => plan[measure]);
      return meanRow(`sharding.threads.${measure}.${way}`, figures, "ms");
    }),
  );
  const mean = (way: Way) => meanOf(ofWay(way).map((plan) => plan.embedding));
  const best = Math.min(...(["dim", "size", "lookup", "sizeLookup"] as const).map(mean));
  const below = 100 * (1 - mean("learned") / best);
  const all = sets.flat();
  return [
    ...means,
    meanRow("sharding.threads.below", [below], "% below the best greedy, embedding part"),
    ...againstWays.map((way) => againstRow(sets, way)),
    ...ceilingRows(sets),
    ...predictors.flatMap((by) => {
      const predicted = (plan: MeasuredPlan) => plan.predicted[by];
      const embedding = ({ embedding: ms }: MeasuredPlan) => ms;
      const rank = (plans: readonly MeasuredPlan[], of = predicted, to = embedding) =>
        rankCorrelation(plans.map(of), plans.map(to));
      const inSets = sets.map((set) => rank(set));
      const errors = all.map((plan) => 100 * Math.abs(predicted(plan) / plan.embedding - 1));
      const ofStep = by === "formulas" ? (plan: MeasuredPlan) => plan.predictedStep : predicted;
      const row = (name: string, values: readonly number[], unit: string) => {
        return meanRow(`sharding.threads.${name}.${by}`, values, unit);
      };
      const aim = by === "learned" ? { limit: 0.95, limitIs: "at least" } : {};
      const whole = rank(all);
      return [
        { ...row("rank", [whole], "rank correlation, all plans"), ...aim },
        row("rankInSets", inSets, "rank correlation, plans of one set"),
        row(
          "rankOfSteps",
          [rank(all, ofStep, ({ step }) => step)],
          "rank correlation, whole steps of all plans",
        ),
        row("error", errors, "% mean absolute error, embedding part"),
      ];
    }),
    ...sets.flatMap((set, index) =>
      set.flatMap(({ way, embedding, predicted, step, wall }): BenchRow[] =>
        planRows.map((row) => {
          const limit = row === "plan" ? predicted.learned : predicted.formulas;
          const figures = `a step ${step.toPrecision(4)}, wall-clock ${wall.toPrecision(4)}`;
          return {
            ...meanRow(`sharding.threads.${row}.${index}.${way}`, [embedding], "ms"),
            ...{ limit, limitIs: `predicted; ${figures}`, ratio: embedding / limit },
          };
        }),
      ),
    ),
  ];
}

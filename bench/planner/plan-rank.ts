// Whether the cost model knows which of two plans is faster: the predicted step time, with
// constants measured just before, beside the measured one, over plans drawn at random. Plans take
// turns of a few steps, because a machine has fast and slow minutes. The limit is how well the
// measured times of even turns agree with the times of odd turns.

import { calibrate } from "../../actors/calibration/calibrate.ts";
import { resolveJob } from "../../src/job/job.ts";
import { type Assessment, assessPlan } from "../../src/planner/assess.ts";
import { stages } from "../../src/planner/cost/cost.ts";
import { RandomStream } from "../../src/ports/random.ts";
import { workloadOf } from "../../src/training/planning/workload.ts";
import { type BenchRow, quantiles } from "../row.ts";
import { runDevices } from "../step/device-threads.ts";
import type { TrainThreadReport } from "../step/train-thread.ts";
import { randomPlan } from "./random-plan.ts";

const devices = 2;
const plans = 20;
const tables = 60;
const dim = 64;
const batchSize = 1024;
/** Of each plan. */
const turns = 6;
const turnSteps = 4;
const idsPerBagMax = 300;

/** Many unequal tables, and little besides. */
function jobOf(random: RandomStream) {
  const specs = Array.from({ length: tables }, (_, i) => ({
    name: `T${i}`,
    rows: Math.ceil(Math.exp(6 + 4 * random.uniform())),
    dim,
    rowBlocks: ([1, 2, 4] as const)[random.below(3)] ?? 1,
  }));
  const idsMax = specs.map(() =>
    Math.min(idsPerBagMax, Math.ceil(Math.exp(1.5 + 1.5 * random.normal()))),
  );
  const job = resolveJob({
    model: {
      kind: "dlrm",
      tables: specs,
      bottom: [dim],
      top: [32, 1],
      dense: 4,
      interaction: "cat",
    },
    // The ids of the bench are uniform.
    data: { kind: "synthetic", samples: 1, dense: 4, batchSize, zipf: 0 },
    optimizer: { sparse: { kind: "rowWiseAdagrad" }, dense: { kind: "sgd" } },
  });
  return { job, idsMax };
}

export const planRankNames: readonly string[] = [
  "planner.rank",
  ...Array.from({ length: plans }, (_, i) => planName(i)),
];

/** Calibration, the memory of all plans, and their turns. */
export const planRankSeconds = 90;

function planName(index: number): string {
  return `planner.plan.${index}`;
}

/** A row for the rank correlation, and one for each plan. */
export async function rankOfPlans(): Promise<BenchRow[]> {
  const random = new RandomStream(727, 1);
  const { job, idsMax } = jobOf(random);
  const constants = await calibrate({ devices, memoryBytes: 2 ** 33, source: "this bench" });
  const known = workloadOf(job);
  const workload = {
    ...known,
    tables: known.tables.map((table, i) => ({ ...table, poolingFactor: idsMax[i] ?? 1 })),
  };
  const setting = { workload, devices: { hosts: 1, perHost: devices }, constants };
  // Plans of all kinds: in some most tables are copied, in others most are cut, or few.
  const drawn = Array.from({ length: plans }, () => {
    const [copied, rows, columns] = [random.uniform(), random.uniform(), random.uniform()];
    return randomPlan(job.model.tables, devices, random, { copied, rows, columns });
  });
  const over = new SharedArrayBuffer(4);
  const reports = await Promise.all(
    drawn.map((plan, index) =>
      runDevices({
        input: { model: job.model, batchSize, slices: 8, idsMax, plan },
        ...{ devices, depth: 3, recipe: job, batches: 2, arithmetic: "auto" },
        turns: { over, trainings: plans, index, steps: turnSteps },
        seconds: Number.POSITIVE_INFINITY,
        steps: turns * turnSteps,
        warmUpSteps: 1,
      }),
    ),
  );
  const measured = reports.map(([report]) => fast(report?.stepMs ?? []));
  const halves = [0, 1].map((half) =>
    reports.map(([report]) => {
      const ofHalf = (_: number, i: number) => Math.floor(i / turnSteps) % 2 === half;
      return fast((report?.stepMs ?? []).filter(ofHalf));
    }),
  );
  const assessed = drawn.map((plan) => assessPlan(setting, plan));
  const figure = rankCorrelation(
    assessed.map(({ step }) => step),
    measured,
  );
  const agreed = rankCorrelation(halves[0] ?? [], halves[1] ?? []);
  const limitIs = `one half of the turns beside the other: ${agreed.toPrecision(3)}`;
  const row = { name: "planner.rank", figure, unit: "rank correlation", limit: 1, limitIs };
  return [
    { ...row, ratio: figure, target: [0.9, 1], spread: [figure, figure] },
    ...assessed.map((own, i) => planRow(planName(i), own, reports[i]?.[0])),
  ];
}

/** A plan's measured step beside the predicted one, and what that is made of. */
function planRow(name: string, own: Assessment, report: TrainThreadReport | undefined): BenchRow {
  const stepMs = report?.stepMs ?? [];
  const [figure, { spread }] = [fast(stepMs), quantiles(stepMs)];
  const limit = 1000 * own.step;
  const limitIs = stages
    .filter((stage) => own.stages[stage] > 0)
    .map((stage) => `${stage} ${(1000 * own.stages[stage]).toPrecision(2)}`)
    .join(", ");
  const row = { name, figure, unit: "ms", limit, limitIs, ratio: figure / limit };
  return { ...row, spread, times: report?.times };
}

/** A fast step, the tenth percentile: what else runs only makes steps longer. */
function fast(stepMs: readonly number[]): number {
  return quantiles(stepMs).spread[0];
}

/** Spearman's: the correlation of places in the two orders. */
function rankCorrelation(a: readonly number[], b: readonly number[]): number {
  const placesOf = (values: readonly number[]) => {
    const sorted = [...values].sort((x, y) => x - y);
    return values.map((value) => sorted.indexOf(value));
  };
  const [placesA, placesB] = [placesOf(a), placesOf(b)];
  const squares = placesA.reduce((sum, place, i) => sum + (place - (placesB[i] ?? 0)) ** 2, 0);
  return 1 - (6 * squares) / (a.length * (a.length ** 2 - 1));
}

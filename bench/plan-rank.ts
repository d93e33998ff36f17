// Whether the cost model knows which of two plans is faster: the step time that it predicts, with
// constants measured just before, beside the one that is measured, over plans drawn at random.

import { calibrate } from "../actors/calibrate.ts";
import { resolveJob } from "../src/job.ts";
import { assessPlan } from "../src/planner/assess.ts";
import { RandomStream } from "../src/random.ts";
import { workloadOf } from "../src/training/workload.ts";
import { randomPlan } from "./random-plan.ts";
import type { BenchRow } from "./report.ts";
import { runDevices } from "./train.bench.ts";

const devices = 2;
const plans = 20;
const tables = 60;
const dim = 64;
/** Steps of each plan: the fastest counts, as what else runs only makes them longer. */
const steps = 10;
const idsPerBagMax = 300;

/** Many unequal tables, and little besides. */
function jobOf(random: RandomStream) {
  const specs = Array.from({ length: tables }, (_, i) => ({
    name: `T${i}`,
    rows: Math.ceil(Math.exp(7 + 4 * random.uniform())),
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
    data: { kind: "synthetic", samples: 1, dense: 4, batchSize: 2048 },
    optimizer: { sparse: { kind: "rowWiseAdagrad" }, dense: { kind: "sgd" } },
  });
  return { job, idsMax };
}

export async function rankOfPlans(): Promise<BenchRow> {
  const random = new RandomStream(727, 1);
  const { job, idsMax } = jobOf(random);
  const constants = await calibrate({ devices, memoryBytes: 2 ** 33, source: "this bench" });
  const known = workloadOf(job);
  const workload = {
    ...known,
    tables: known.tables.map((table, i) => ({ ...table, poolingFactor: idsMax[i] ?? 1 })),
  };
  const setting = { workload, devices: { hosts: 1, perHost: devices }, constants };
  const predicted: number[] = [];
  const measured: number[] = [];
  for (let i = 0; i < plans; i++) {
    const plan = randomPlan(job.model.tables, devices, random);
    const reports = await runDevices({
      input: { model: job.model, batchSize: job.data.batchSize, slices: 8, idsMax, plan },
      devices,
      depth: 3,
      recipe: job,
      batches: 4,
      seconds: Number.POSITIVE_INFINITY,
      steps,
      arithmetic: "auto",
    });
    predicted.push(1000 * assessPlan(setting, plan).step);
    measured.push(Math.min(...(reports[0]?.stepMs ?? [])));
  }
  const figure = rankCorrelation(predicted, measured);
  const limitIs = `predicted ${range(predicted)} ms, measured ${range(measured)} ms`;
  const row = { name: "planner.rank", figure, unit: "rank correlation", limit: 1, limitIs };
  return { ...row, ratio: figure, target: [0.9, 1], spread: [figure, figure] };
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

function range(values: readonly number[]): string {
  const sorted = [...values].sort((x, y) => x - y);
  return `${sorted[0]?.toPrecision(3)} to ${sorted.at(-1)?.toPrecision(3)}`;
}

// Question: how far are predicted steps from measured ones, over random jobs on this machine? The
// machine is calibrated before every block of jobs, as it has two levels of speed; no figure of the
// jobs reaches the prediction.

import { mkdtempSync, rmSync } from "node:fs";
import { totalmem } from "node:os";
import { join } from "node:path";
import { Option } from "commander";
import { calibrate, quickSize } from "../../../actors/calibration/calibrate.ts";
import { constantsOfDevice } from "../../../actors/calibration/machine-constants.ts";
import { type Bench, positive, together } from "../../../bench/bench.ts";
import { type BenchRow, quantiles } from "../../../bench/row.ts";
import { Cluster, resolveJob } from "../../../internal.ts";
import { openKernels } from "../../../src/kernels/index.ts";
import type { MachineConstants } from "../../../src/planner/cost/constants.ts";
import { planJob } from "../../../src/training/planning/plan-job.ts";
import { jobIn, type MeasuredSteps, measureAlone } from "./measured-steps.ts";
import { type RandomJob, randomJob } from "./random-jobs.ts";

interface ValidationOptions {
  readonly jobs: number;
  readonly seed: number;
  readonly from: number;
}

/** A prediction is good within this share of the measured step. */
const tolerance = 0.15;
/** Jobs behind one calibration. */
const blockJobs = 16;
const calibrationSeconds = 22;
const jobSeconds = 9;

export const validationBench: Bench<ValidationOptions> = {
  question: "predicted beside measured steps of random jobs",
  options: [
    new Option("--jobs <count>", "random jobs").argParser(positive).default(32),
    new Option("--seed <number>", "that they are drawn from").argParser(positive).default(1),
    new Option("--from <number>", "first job").argParser(Number).default(0),
  ],
  measurements(options) {
    const all = Array.from({ length: options.jobs }, (_, i) =>
      randomJob(options.seed, options.from + i, "alone"),
    );
    const names = all.map(({ name }) => `what-if.${name}`);
    const blocks = Math.ceil(options.jobs / blockJobs);
    const seconds = blocks * calibrationSeconds + options.jobs * jobSeconds;
    return [together([...names, "what-if.within"], seconds, () => measure(all))];
  },
};

interface Outcome {
  readonly job: RandomJob;
  readonly predicted: number;
  readonly stages: Readonly<Record<string, number>>;
  readonly measured: MeasuredSteps;
}

async function measure(jobs: readonly RandomJob[]): Promise<BenchRow[]> {
  const home = mkdtempSync(join(process.cwd(), ".osiris-bench-what-if-"));
  const outcomes: Outcome[] = [];
  try {
    await using cluster = await Cluster.start({ devices: 2 });
    for (let first = 0; first < jobs.length; first += blockJobs) {
      const constants = await calibrate({
        ...{ devices: 2, memoryBytes: totalmem() / 2, source: "this bench", stepsOn: [1, 2] },
        size: quickSize(openKernels("auto").arithmetic),
      });
      for (const job of jobs.slice(first, first + blockJobs)) {
        const { plan, ...predicted } = planned(home, job, constants);
        const measured = await measureAlone(cluster, home, job, plan);
        outcomes.push({ job, ...predicted, measured });
        console.error(
          JSON.stringify(outcomes.at(-1), (_, v) =>
            typeof v === "number" ? Number(v.toPrecision(4)) : v,
          ),
        );
      }
    }
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
  return rowsOf(outcomes);
}

function planned(home: string, one: RandomJob, constants: MachineConstants) {
  const job = resolveJob(jobIn(home, one));
  const devices = { hosts: 1, perHost: one.devices };
  const plan = planJob(job, { devices, constants: constantsOfDevice(constants, one.devices) });
  if (!plan.isFeasible) throw new RangeError(`${one.name} fits any device`);
  const { step, stages } = plan.assessment;
  return { plan: JSON.parse(plan.text) as object, predicted: step, stages };
}

function rowsOf(outcomes: readonly Outcome[]): BenchRow[] {
  const rows = outcomes.map(({ job, predicted, measured }): BenchRow => {
    const { median, spread } = quantiles(measured.windows);
    const figure = predicted / median;
    const limitIs = `measured; ${job.text}`;
    return {
      ...{ name: `what-if.${job.name}`, figure, unit: "predicted/measured", limit: 1, limitIs },
      ...{ ratio: figure, spread: [predicted / spread[1], predicted / spread[0]] as const },
    };
  });
  const good = rows.filter(({ figure }) => Math.abs(figure - 1) <= tolerance).length;
  const share = good / rows.length;
  const within = { name: "what-if.within", figure: share, unit: "of the jobs" };
  return [...rows, { ...within, limit: 0.9, ratio: share / 0.9, spread: [share, share] }];
}

// Question: how well does the planner predict the steps of small jobs, and does it pick the faster
// number of devices? Each round calibrates, then trains every job on 1 device and on 2, in turn. A
// figure is the predicted step over the measured step, round by round; both are fast steps, as
// whatever else runs on the machine only makes them longer.

import { mkdtempSync, rmSync } from "node:fs";
import { totalmem } from "node:os";
import { join } from "node:path";
import { Option } from "commander";
import { calibrate, quickSize } from "../../actors/calibration/calibrate.ts";
import { constantsOfDevice } from "../../actors/calibration/machine-constants.ts";
import { timeSteps } from "../../actors/calibration/step-probes.ts";
import { prepareData } from "../../actors/threads/data/prepare-data.ts";
import { resolveJob } from "../../src/job/job.ts";
import { openKernels } from "../../src/kernels/index.ts";
import type { MachineConstants } from "../../src/planner/cost/constants.ts";
import { realClock } from "../../src/ports/clock.ts";
import { realDisk } from "../../src/ports/disk.ts";
import { workerLauncher } from "../../src/ports/launcher.ts";
import { planJob } from "../../src/training/planning/plan-job.ts";
import { type Bench, positive, together } from "../bench.ts";
import { type BenchRow, quantiles } from "../row.ts";
import { smallJobNames, smallJobs } from "./small-jobs.ts";

interface PredictionsOptions {
  readonly rounds: number;
  readonly data: string;
}

/** Numbers of devices of a job. */
const counts = [1, 2] as const;
/** A prediction is good within so much of the measured step. */
const tolerance = 0.25;
const secondsOfRound = 22;
const times = { warmUpMs: 300, warmUpSteps: 200, longestMs: 2000, sampleMs: 4, samples: 75 };

/** Seconds of a job's step on so many devices, in one round. */
interface Pair {
  readonly predicted: number;
  readonly measured: number;
}

export const predictionsBench: Bench<PredictionsOptions> = {
  question: "predicted beside measured steps of five small jobs, on one device and on two",
  options: [
    new Option("--rounds <count>", "calibrations and trainings").argParser(positive).default(3),
    new Option("--data <directory>", "real files (criteo, frappe, session)").default(
      "../shared/data",
    ),
  ],
  full: { rounds: 9 },
  measurements(options) {
    const names = smallJobNames.flatMap((job) => [
      ...counts.map((devices) => `predictions.${job}.${devices}`),
      `predictions.${job}.picked`,
    ]);
    return [together(names, options.rounds * secondsOfRound, () => measure(options))];
  },
};

async function measure({ rounds, data }: PredictionsOptions): Promise<BenchRow[]> {
  const home = mkdtempSync(join(process.cwd(), ".osiris-bench-predictions-"));
  try {
    const jobs = Object.entries(smallJobs(home, data));
    const found = new Map<string, Pair[]>();
    for (let round = 0; round < rounds; round++) {
      const constants = await calibrate({
        ...{ devices: 2, memoryBytes: totalmem() / 2, source: "this bench", stepsOn: counts },
        size: quickSize(openKernels("auto").arithmetic),
      });
      for (const [name, job] of jobs) {
        for (const devices of counts) {
          const key = `predictions.${name}.${devices}`;
          const pair = await pairOf(resolveJob(job), devices, constants);
          found.set(key, [...(found.get(key) ?? []), pair]);
        }
      }
    }
    return jobs.flatMap(([name]) => rowsOf(`predictions.${name}`, found));
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
}

async function pairOf(
  job: ReturnType<typeof resolveJob>,
  devices: number,
  constants: MachineConstants,
): Promise<Pair> {
  const plan = planJob(job, {
    devices: { hosts: 1, perHost: devices },
    constants: constantsOfDevice(constants, devices),
  });
  const prepared = await prepareData(job, realDisk, () => {});
  const ports = { launcher: workerLauncher, clock: realClock };
  const { stepSeconds } = await timeSteps(job, devices, prepared, ports, times);
  const predicted = plan.isFeasible ? plan.assessment.step : Number.NaN;
  return { predicted, measured: stepSeconds };
}

/** A row for each number of devices, and one for the number that was picked. */
function rowsOf(name: string, found: ReadonlyMap<string, readonly Pair[]>): BenchRow[] {
  const pairsOn = (devices: number) => found.get(`${name}.${devices}`) ?? [];
  const rows = counts.map((devices): BenchRow => {
    const pairs = pairsOn(devices);
    const { median, spread } = quantiles(pairs.map((pair) => pair.predicted / pair.measured));
    const millis = (of: (pair: Pair) => number) =>
      (1000 * quantiles(pairs.map(of)).median).toPrecision(3);
    const predicted = millis((pair) => pair.predicted);
    const isGood = Math.abs(median - 1) <= tolerance ? "within" : "not within";
    const limitIs =
      `${isGood} 25 %: predicted ${predicted} ms, ` +
      `measured ${millis((pair) => pair.measured)} ms`;
    const unit = "predicted/measured";
    return {
      ...{ name: `${name}.${devices}`, figure: median, unit, spread, limitIs },
      ...{ limit: 1, ratio: median },
    };
  });
  const speedup = (of: (pair: Pair) => number) =>
    quantiles(pairsOn(1).map((one, i) => of(one) / of(pairsOn(2)[i] ?? one))).median;
  const [measured, predicted] = [
    speedup((pair) => pair.measured),
    speedup((pair) => pair.predicted),
  ];
  const picked = predicted > 1 ? 2 : 1;
  const faster = measured > 1 ? 2 : 1;
  const limitIs = `1: the faster; two devices are ${measured.toFixed(2)} times as fast as one`;
  const share = picked === faster ? 1 : Math.min(measured, 1 / measured);
  return [
    ...rows,
    {
      ...{ name: `${name}.picked`, figure: share, unit: `of the faster, with ${picked}`, limitIs },
      ...{ limit: 1, ratio: share, spread: [share, share] },
    },
  ];
}

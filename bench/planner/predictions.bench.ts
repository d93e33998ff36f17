// Question: how well does the planner predict the steps of small jobs, and does it pick the faster
// number of devices? Each round calibrates, then trains every job on 1 device and on 2, in turn,
// with the device and reader programs of a run. A figure is the predicted step over the median step
// of the quietest pass once programs are compiled, round by round. With `--runs` a job runs as with
// `osiris train`, and a figure is over the step that the run reports once its programs are
// compiled: a mean over seconds, which includes the effects of other programs.

import { rmSync } from "node:fs";
import { totalmem } from "node:os";
import { join } from "node:path";
import { Option } from "commander";
import { constantsOfDevice } from "../../actors/calibration/machine-constants.ts";
import { quickSize } from "../../actors/calibration/measure-rates.ts";
import { quietest, timeSteps } from "../../actors/calibration/time-steps.ts";
import { prepareData } from "../../actors/threads/data/prepare-data.ts";
import { Cluster } from "../../internal.ts";
import { calibrate } from "../../packages/what-if/index.ts";
import { type JobOptions, resolveJob } from "../../src/job/job.ts";
import { openKernels } from "../../src/kernels/index.ts";
import type { MachineConstants } from "../../src/planner/cost/constants.ts";
import { realClock } from "../../src/ports/clock.ts";
import { realDisk } from "../../src/ports/disk.ts";
import { workerLauncher } from "../../src/ports/launcher.ts";
import { countedStatistics } from "../../src/training/planning/counted-statistics.ts";
import { planJob } from "../../src/training/planning/plan-job.ts";
import { temporaryHome } from "../../storage/disk/temporary-home.ts";
import { type Bench, positiveOption, together } from "../bench.ts";
import { type BenchRow, quantiles } from "../row.ts";
import { smallJobNames, smallJobs } from "./small-jobs.ts";

interface PredictionsOptions {
  readonly rounds: number;
  readonly seconds: number;
  readonly runs: boolean;
  readonly data: string;
}

/** Numbers of devices of a job. */
const counts = [1, 2] as const;
/** A prediction is good within this share of the measured step. */
const tolerance = 0.25;
/** Duration of a calibration, and of the start of a run. */
const calibrationSeconds = 22;
const startSeconds = 1;
/** More steps than are trained, so that no checkpoint falls into a measurement. */
const everySteps = 1_000_000;
/** Time until the programs are compiled. */
const compileSeconds = 3;

/** Seconds of a job's step on a number of devices, in one round. */
interface Pair {
  readonly predicted: number;
  readonly measured: number;
}

export const predictionsBench: Bench<PredictionsOptions> = {
  question: "predicted beside measured steps of five small jobs, on one device and on two",
  options: [
    positiveOption("--rounds <count>", "calibrations and trainings", 3),
    positiveOption("--seconds <count>", "that a job trains: three compile, the rest counts", 5),
    new Option("--runs", "run the jobs, and take the mean steps that they report").default(false),
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
    const ofJobs = counts.length * smallJobNames.length * (options.seconds + startSeconds);
    const seconds = options.rounds * (calibrationSeconds + ofJobs);
    return [together(names, seconds, () => measure(options))];
  },
};

async function measure(options: PredictionsOptions): Promise<BenchRow[]> {
  const { rounds, seconds, data } = options;
  using home = temporaryHome("osiris-bench-predictions-");
  const jobs = Object.entries(smallJobs(home.path, data));
  const found = new Map<string, Pair[]>();
  for (let round = 0; round < rounds; round++) {
    const constants = await calibrate({
      ...{ devices: 2, memoryBytes: totalmem() / 2, source: "this bench", stepsOn: counts },
      size: quickSize(openKernels("auto").arithmetic),
    });
    for (const [name, job] of jobs) {
      for (const devices of counts) {
        const key = `predictions.${name}.${devices}`;
        const directory = join(home.path, `${name}-${devices}-${round}`);
        const own = { ...job, checkpoint: { directory, everySteps } };
        await prepareData(resolveJob(own), realDisk, () => {});
        const { step: predicted, text } = planOf(own, devices, constants);
        const planned = { ...own, plan: JSON.parse(text) };
        const measured = options.runs
          ? await stepOfRun(planned, devices, seconds)
          : await stepOfThreads(planned, devices, seconds);
        rmSync(directory, { recursive: true, force: true });
        found.set(key, [...(found.get(key) ?? []), { predicted, measured }]);
      }
    }
  }
  return jobs.flatMap(([name]) => rowsOf(`predictions.${name}`, found));
}

/** The plan that `osiris plan` finds. */
function planOf(options: JobOptions, devices: number, constants: MachineConstants) {
  const job = resolveJob(options);
  const plan = planJob(job, {
    devices: { hosts: 1, perHost: devices },
    constants: constantsOfDevice(constants, devices),
    statistics: countedStatistics(job)?.features,
  });
  if (!plan.isFeasible) throw new RangeError("A small job fits any device");
  return { step: plan.assessment.step, text: plan.text };
}

/** Passes of measuring a job; the quietest one counts. */
const passes = 3;

async function stepOfThreads(options: JobOptions, devices: number, seconds: number) {
  const job = resolveJob(options);
  const prepared = await prepareData(job, realDisk, () => {});
  const sampleMs = 4;
  const samples = Math.ceil((1000 * (seconds - compileSeconds)) / passes / sampleMs);
  const counting = { warmUpMs: 50, warmUpSteps: 10, longestMs: 2000, sampleMs, samples };
  const compiling = { ...counting, warmUpMs: 1000 * compileSeconds, samples: 0 };
  const all = [compiling, ...Array.from({ length: passes }, () => counting)];
  const ports = { launcher: workerLauncher, clock: realClock };
  const timed = all.map((times) => ({ job, data: prepared, times }));
  return quietest(await timeSteps(timed, devices, ports), ({ stepMs }) => stepMs) / 1000;
}

async function stepOfRun(job: JobOptions, devices: number, seconds: number): Promise<number> {
  await using cluster = await Cluster.start({ devices });
  const run = await cluster.submit(job);
  await new Promise((resolve) => setTimeout(resolve, 1000 * (seconds + startSeconds)));
  await run.cancel();
  const { times } = await run.result();
  return (times?.warm?.stepMs ?? Number.NaN) / 1000;
}

/** A row for each number of devices, and one for the number that the planner picks. */
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

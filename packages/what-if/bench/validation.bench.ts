// Question: how far are predicted steps from measured ones, over random jobs on this machine? The
// machine is measured as `osiris calibrate --machine` does before every block of jobs, and jobs are
// predicted by that hardware file, never by their own measurements. A machine may have two levels
// of speed: the mean of the faster half of a job's windows at the level of the calibration counts,
// as for the passes of a probe. A job that other programs of this machine disturb is measured once
// more. `--save` writes all measurements and predictions, a line of JSON for each calibration and
// job.
//
//   alone.N   on one or two devices of a process
//   links.N   on two machines with a core each, and a cable of 1 or 10 Gb/s (bench/machines)
//   within    share of the jobs that are within 15 %

import { appendFileSync, writeFileSync } from "node:fs";
import { availableParallelism, totalmem } from "node:os";
import { join } from "node:path";
import { Option } from "commander";
import { quickSize } from "../../../actors/calibration/measure-rates.ts";
import { type Bench, type Measurement, positiveOption } from "../../../bench/bench.ts";
import { lacksForMachines } from "../../../bench/machines/machines.ts";
import { type BenchRow, quantiles } from "../../../bench/row.ts";
import {
  Cluster,
  measuredDevices,
  planJob,
  realClock,
  resolveJob,
  temporaryHome,
} from "../../../internal.ts";
import { openKernels } from "../../../src/kernels/index.ts";
import { constantsOf } from "../hardware/constants-of.ts";
import type { ClusterDevices, Hardware } from "../hardware/hardware.ts";
import { measureDisk, measuredHardware } from "../hardware/measured-hardware.ts";
import { readHardware } from "../hardware/read-hardware.ts";
import { predictPlanned } from "../predict/predict-cluster.ts";
import { stepFactsOfPlan } from "../predict/step-facts.ts";
import { levelReader } from "../tasks/machine-level.ts";
import { measureMachine, type ProbedJob } from "../tasks/task-probes.ts";
import { cables, measureLinked, measureMovers, type Predicted } from "./linked-steps.ts";
import {
  jobIn,
  type MeasuredSteps,
  meanSteps,
  measureAlone,
  type Place,
  type PlacedJob,
  placedJob,
} from "./measured-steps.ts";
import { coresOfOthers } from "./noise.ts";

interface ValidationOptions {
  readonly jobs: number;
  readonly seed: number;
  readonly skip: number;
  readonly hardware?: string;
  readonly save?: string;
}

/** A prediction is good within this share of the measured step. */
const tolerance = 0.15;
/** Number of jobs that follow one calibration. */
const blockJobs = 20;
const calibrationSeconds = 230;
/** Seconds of a job, including the start of the machines on which it trains. */
const secondsOf: Readonly<Record<Place, number>> = { alone: 20, "1g": 40, "10g": 40 };
/** A job is measured again where other programs kept more cores busy than this. */
const othersMax = 0.1;

export const validationBench: Bench<ValidationOptions> = {
  question: "predicted beside measured steps of random jobs",
  options: [
    positiveOption("--jobs <count>", "random jobs", 6),
    positiveOption("--seed <number>", "seed of the random jobs", 1),
    new Option("--skip <count>", "number of jobs of the seed to skip").argParser(Number).default(0),
    new Option("--hardware <FILE>", "predict by this file, instead of measuring the machine first"),
    new Option("--save <FILE>", "add all that is measured and predicted to a file, as JSON lines"),
  ],
  full: { jobs: 40 },
  measurements({ jobs, seed, skip, hardware, save }) {
    const keep: Keep = (what, value) => {
      if (save !== undefined) appendFileSync(save, `${JSON.stringify({ [what]: value })}\n`);
    };
    const all = Array.from({ length: jobs }, (_, i) => {
      return placedJob(seed, skip + i, placeOf(skip + i));
    });
    const outcomes: Outcome[] = [];
    const blocks = Array.from({ length: Math.ceil(all.length / blockJobs) }, (_, block) =>
      all.slice(block * blockJobs, (block + 1) * blockJobs),
    );
    const measurements = blocks.map((block): Measurement => {
      return {
        names: block.map(({ name }) => name),
        seconds:
          (hardware === undefined ? calibrationSeconds : 0) +
          block.reduce((sum, { place }) => sum + secondsOf[place], 0),
        async *measure(isWanted) {
          const wanted = block.filter(({ name }) => isWanted(name));
          for await (const outcome of measureBlock(wanted, hardware, keep)) {
            outcomes.push(outcome);
            keep("job", outcome);
            yield rowOf(outcome);
          }
        },
      };
    });
    const within: Measurement = {
      ...{ names: ["within"], seconds: 0 },
      async *measure() {
        yield shareOf(outcomes);
      },
    };
    return [...measurements, within];
  },
};

/** The place of a job: one job in ten is on each cable. */
function placeOf(index: number): Place {
  const at = index % 10;
  return at === 4 ? "1g" : at === 9 ? "10g" : "alone";
}

/** Appends a line to the file of `--save`. */
type Keep = (what: "calibration" | "job", value: object) => void;

interface Outcome extends Predicted {
  readonly job: PlacedJob;
  readonly measured: MeasuredSteps;
  /** Cores that other programs kept busy; left out for jobs on cables, where it is not measured. */
  readonly others?: number;
  /** The level of the calibration. */
  readonly level: number;
}

async function* measureBlock(
  jobs: readonly PlacedJob[],
  file: string | undefined,
  keep: Keep,
): AsyncGenerator<Outcome> {
  using home = temporaryHome("osiris-bench-what-if-");
  const read = levelReader();
  const hardware = file === undefined ? await measureHardware(home.path, keep) : readHardware(file);
  const levelOn = (devices: number) =>
    hardware.tasks?.find((costs) => costs.devices === devices)?.level ?? 0;
  await using cluster = await Cluster.start({ devices: 2 });
  for (const job of jobs.filter(({ place }) => place === "alone")) {
    const predicted = prediction(home.path, job, hardware, { hosts: 1, perHost: job.devices });
    const level = levelOn(job.devices);
    let found: Required<Pick<Outcome, "measured" | "others">> | undefined;
    for (let attempt = 0; attempt < 2; attempt++) {
      const othersNow = coresOfOthers();
      const measured = await measureAlone(cluster, home.path, job, predicted.plan, { read, level });
      const others = othersNow();
      if (found === undefined || others < found.others) found = { measured, others };
      if (others <= othersMax) break;
    }
    if (found !== undefined) yield { job, ...predicted, ...found, level };
  }
  const onCables = jobs.filter(({ place }) => place !== "alone");
  const lack = lacksForMachines();
  if (onCables.length === 0) return;
  if (lack !== undefined) {
    console.error(`Skipped ${onCables.map(({ name }) => name).join(", ")}: ${lack}`);
    return;
  }
  const moving = { ...hardware, coreBandwidth: await measureMovers() };
  for (const place of Object.keys(cables) as (keyof typeof cables)[]) {
    const linked = onCables.filter((job) => job.place === place);
    if (linked.length === 0) continue;
    const found = await measureLinked(place, linked, moving, (job, own) => {
      return prediction(home.path, job, own, { hosts: 2, perHost: 1 });
    });
    for (const one of found) yield { ...one, level: levelOn(2) };
  }
}

/** The hardware file that `osiris calibrate --machine` writes. */
async function measureHardware(home: string, keep: Keep): Promise<Hardware> {
  const cores = availableParallelism();
  const disk = measureDisk(home, realClock);
  const probed: ProbedJob[] = [];
  const { constants, tasks } = await measureMachine({
    ...{ devices: Math.min(2, cores), memoryBytes: totalmem() / 2, source: "this bench" },
    ...{ stepsOn: measuredDevices(cores), size: quickSize(openKernels("auto").arithmetic) },
    onProbed: (own) => void probed.push(...own),
  });
  const text = measuredHardware(constants, tasks, { cores, memoryBytes: totalmem(), disk });
  keep("calibration", { hardware: text, probed });
  const path = join(home, "machine.yaml");
  writeFileSync(path, text);
  return readHardware(path);
}

function prediction(
  home: string,
  one: PlacedJob,
  hardware: Hardware,
  devices: ClusterDevices,
): Predicted {
  const job = resolveJob(jobIn(home, one));
  const planned = planJob(job, { devices, constants: constantsOf(hardware, devices) });
  if (!planned.isFeasible) throw new RangeError(`Expected ${one.name} to fit this machine`);
  const { plan, text } = planned;
  const options = { hosts: devices.hosts };
  const facts = stepFactsOfPlan({ job, plan, devices });
  const { steps } = predictPlanned({ job, devices, plan, facts, missing: [], options }, hardware);
  const waits = Object.entries(steps.exposed).map(([name, own]) => [`wait.${name}`, own]);
  const tasks = { ...steps.byTask, ...Object.fromEntries(waits) };
  return { plan: JSON.parse(text) as object, predicted: steps.step, tasks };
}

function rowOf({ job, predicted, tasks, measured, others, level }: Outcome): BenchRow {
  const mean = meanSteps(measured, level);
  const { spread } = quantiles(measured.windows.map(({ seconds }) => seconds));
  const figure = predicted / mean.seconds;
  const ms = (seconds: number) => `${(1000 * seconds).toPrecision(3)} ms`;
  // A prediction counts waits for a batch and for tiers in the tasks of these names.
  const { "wait.batch": batch = 0, "wait.tiers": tiers = 0, ...stages } = mean.stages;
  const waits: Partial<Record<string, number>> = { batch, tiers };
  const wrong = Object.keys({ ...tasks, ...stages })
    .map((task) => {
      return { task, ours: tasks[task] ?? 0, real: (stages[task] ?? 0) + (waits[task] ?? 0) };
    })
    .sort((a, b) => Math.abs(b.ours - b.real) - Math.abs(a.ours - a.real))
    .slice(0, 2)
    .map(({ task, ours, real }) => `${task}, ${ms(ours)} for ${ms(real)}`);
  const gigaflops = (speed: number) => (speed / 1e9).toFixed(0);
  const limitIs =
    `${job.text}: predicted ${ms(predicted)}, measured ${ms(mean.seconds)}; most wrong ` +
    wrong.join(", ") +
    (others === undefined
      ? ""
      : `; others kept ${others.toFixed(2)} cores; ${mean.windows} of ` +
        `${measured.windows.length} windows at ${gigaflops(mean.level)} GFLOP/s, ` +
        `calibrated at ${gigaflops(level)}`);
  return {
    ...{ name: job.name, figure, unit: "predicted/measured", limit: 1, limitIs, ratio: figure },
    spread: [predicted / spread[1], predicted / spread[0]],
  };
}

function shareOf(outcomes: readonly Outcome[]): BenchRow {
  const errors = outcomes.map(({ predicted, measured, level }) => {
    return Math.abs(predicted / meanSteps(measured, level).seconds - 1);
  });
  const share = errors.filter((error) => error <= tolerance).length / errors.length;
  const limitIs = `at least; the median error is ${(100 * quantiles(errors).median).toFixed(1)} %`;
  const row = { name: "within", figure: share, unit: "of the jobs, within 15 %", limitIs };
  return { ...row, limit: 0.9, ratio: share / 0.9, spread: [share, share] };
}

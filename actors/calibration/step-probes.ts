// Step probes: small jobs whose steps calibration measures whole. A probe is a generation without a
// host: the device and reader programs of a run, on threads and memory of their own, between no
// checkpoints. Each probe has much of what one cost counts, so that the costs can be told apart.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PeerLostError, RemoteError } from "../../src/errors/errors.ts";
import { type JobOptions, type JobSpec, resolveJob } from "../../src/job/job.ts";
import type { MachineConstants } from "../../src/planner/cost/constants.ts";
import { fitStepCosts, type MeasuredStep } from "../../src/planner/cost/fit-step-costs.ts";
import type { StepCosts } from "../../src/planner/cost/step-costs.ts";
import { planOfFile } from "../../src/planner/shards.ts";
import type { Clock } from "../../src/ports/clock.ts";
import { realDisk } from "../../src/ports/disk.ts";
import type { Launcher, Thread } from "../../src/ports/launcher.ts";
import {
  type HostMeters,
  type StepTimes,
  timesBetween,
} from "../../src/training/meters/step-meter.ts";
import { planJob } from "../../src/training/planning/plan-job.ts";
import { workloadOf } from "../../src/training/planning/workload.ts";
import { prepareData } from "../threads/data/prepare-data.ts";
import type { DeviceCommand, DeviceReport } from "../threads/device-program.ts";
import {
  abort,
  createGeneration,
  type Generation,
  progressOver,
  wake,
} from "../threads/generation-memory.ts";
import { type DataPlan, generationSpecOf, hostPlaces } from "../threads/generation-spec.ts";
import { threadFile } from "../threads/thread-file.ts";

/** What a probe trains. */
interface Probe {
  readonly tables: number;
  readonly dim: number;
  readonly idsPerBag: number;
  readonly batchSize: number;
  readonly bottom: readonly number[];
  readonly top: readonly number[];
  readonly interaction: "dot" | "cat";
}

const tiny: Probe = {
  ...{ tables: 1, dim: 16, idsPerBag: 1, batchSize: 64 },
  ...{ bottom: [16], top: [1], interaction: "cat" },
};

/** What calibration trains: each but the first and the last two has much of one thing. */
export const usualProbes: readonly Probe[] = [
  tiny,
  { ...tiny, tables: 26 },
  { ...tiny, tables: 8, batchSize: 1024 },
  { ...tiny, tables: 4, dim: 64, batchSize: 512, bottom: [64] },
  { ...tiny, tables: 4, idsPerBag: 16, batchSize: 256 },
  { ...tiny, batchSize: 512, bottom: [64, 64, 16], top: [64, 64, 1] },
  { ...tiny, bottom: [512, 256, 16] },
  {
    ...{ tables: 26, dim: 16, idsPerBag: 1, batchSize: 256 },
    ...{ bottom: [64, 32, 16], top: [64, 32, 1], interaction: "dot" },
  },
];

/** How long a probe trains. */
export interface ProbeTimes {
  /**
   * Before anything counts: programs are compiled while they run. At least both, where that takes
   * no longer than `longestMs`; sampling, too, ends then.
   */
  readonly warmUpMs: number;
  readonly warmUpSteps: number;
  readonly longestMs: number;
  /** Of one sample of the counters: shorter than the time that a busy machine gives a thread. */
  readonly sampleMs: number;
  readonly samples: number;
}

export interface ProbeOptions {
  /** Numbers of devices that each probe is trained on, in turn. */
  readonly devices: readonly number[];
  readonly arithmetic: "auto" | "native" | "reference";
  readonly probes?: readonly Probe[];
  readonly times?: ProbeTimes;
  /** Told after each probe: the share of all that is done. */
  readonly onProgress?: (done: number) => void;
}

/** What starts threads, and tells the time. */
export interface ProbePorts {
  readonly launcher: Launcher;
  readonly clock: Clock;
}

const usualTimes: ProbeTimes = {
  ...{ warmUpMs: 120, warmUpSteps: 100, longestMs: 400 },
  ...{ sampleMs: 4, samples: 30 },
};

/**
 * What a step costs on each of these numbers of devices, beside the other constants.
 * @throws PeerLostError, or the thread's own error as a RemoteError, where a thread fails
 */
export async function measureSteps(
  constants: MachineConstants,
  options: ProbeOptions,
  { launcher, clock }: ProbePorts,
): Promise<StepCosts[]> {
  const { devices, arithmetic, probes = usualProbes, times = usualTimes, onProgress } = options;
  const directory = mkdtempSync(join(tmpdir(), "osiris-calibrate-"));
  const measured = new Map<number, MeasuredStep[]>(devices.map((count) => [count, []]));
  try {
    for (const [i, probe] of probes.entries()) {
      const given = { ...jobOf(probe, directory), arithmetic };
      const plan = await prepareData(resolveJob(given), realDisk, () => {});
      for (const [count, found] of measured) {
        const job = plannedJob(given, count, constants);
        const ports = { launcher, clock };
        const { seconds, readSeconds } = await timeSteps(job, count, plan, ports, times);
        if (job.plan === undefined) continue;
        const setting = settingOf(job, count, constants);
        found.push({ setting, plan: planOfFile(job.plan), seconds, readSeconds });
      }
      onProgress?.((i + 1) / probes.length);
    }
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
  return [...measured].map(([count, found]) => fitStepCosts(count, found));
}

/** More samples than a probe trains on in a pass: the readers turn the pages of a real cache. */
const samplesOfProbe = 4096;
const endlessEpochs = 100_000;

function jobOf(probe: Probe, directory: string): JobOptions {
  const { tables, dim, idsPerBag, batchSize, bottom, top, interaction } = probe;
  const dense = 8;
  return {
    model: {
      kind: "dlrm",
      dense,
      tables: Array.from({ length: tables }, (_, i) => ({ name: `T${i}`, rows: 10_000, dim })),
      ...{ bottom: [...bottom], top: [...top], interaction },
    },
    sharding: "as-written",
    data: {
      ...{ kind: "synthetic", samples: samplesOfProbe, dense, batchSize, idsPerBag },
      ...{ epochs: endlessEpochs, cache: directory },
    },
    checkpoint: { directory: join(directory, "none") },
  };
}

/** The job with the plan that a run of it would follow. */
function plannedJob(options: JobOptions, devices: number, constants: MachineConstants): JobSpec {
  const job = resolveJob(options);
  const found = planJob(job, { devices: { hosts: 1, perHost: devices }, constants });
  if (!found.isFeasible) throw new RangeError("A probe fits any device");
  return resolveJob({ ...options, plan: JSON.parse(found.text) });
}

function settingOf(job: JobSpec, devices: number, constants: MachineConstants) {
  return { workload: workloadOf(job), devices: { hosts: 1, perHost: devices }, constants };
}

function generationOf(job: JobSpec, devices: number, plan: DataPlan): Generation {
  const spec = generationSpecOf({
    ...{ job, plan, step: 0, latest: undefined, sliceCounts: undefined, network: {} },
    scope: { run: "calibrate", generation: 1 },
    hosts: [{ host: 0, devices }],
  });
  const [place] = hostPlaces(spec);
  if (place === undefined) throw new RangeError("A probe has a host");
  return createGeneration(spec, place);
}

/** What a step took. */
export interface StepSeconds {
  /** Of a device, but for waiting for its batch; and of a reader, for a batch. */
  readonly seconds: number;
  readonly readSeconds: number;
  /** All of the step. */
  readonly stepSeconds: number;
}

/** Trains a job on its prepared data for a while, on threads of its own; keeps nothing of it. */
export async function timeSteps(
  job: JobSpec,
  count: number,
  plan: DataPlan,
  { launcher, clock }: ProbePorts,
  times: ProbeTimes = usualTimes,
): Promise<StepSeconds> {
  const generation = generationOf(job, count, plan);
  const { spec, memory } = generation;
  const start = <Command, Report>(program: "reader" | "device", index: number) => {
    const task = { program, spec, memory, index };
    return launcher.start<Command, Report>(threadFile, task, `calibrate-${program}-${index}`);
  };
  const readers = Array.from({ length: spec.job.readers }, (_, i) =>
    start<never, never>("reader", i),
  );
  const devices = Array.from({ length: spec.devices }, (_, rank) =>
    start<DeviceCommand, DeviceReport>("device", rank),
  );
  const threads = [...readers, ...devices];
  let isOver = false;
  const lost = Promise.race(threads.map(lossOf));
  lost.catch(() => {}); // It is raced below; at the end no thread is lost.
  try {
    await Promise.race([Promise.all(devices.map(readyOf)), lost]);
    for (const [rank, device] of devices.entries()) {
      device.send({ type: "run", toStep: generation.layout.schedule.steps, lossSum: 0 });
      wake(generation, rank);
    }
    return await Promise.race([sampled(generation, clock, times, () => isOver), lost]);
  } finally {
    isOver = true;
    abort(generation);
    await Promise.all(threads.map(({ ended }) => ended));
  }
}

/** Samples the counters of a generation that trains. Fast steps count: see `fast`. */
async function sampled(
  { spec, memory }: Generation,
  clock: Clock,
  { warmUpMs, warmUpSteps, longestMs, sampleMs, samples }: ProbeTimes,
  isOver: () => boolean,
): Promise<StepSeconds> {
  const progress = progressOver(memory, spec.devices);
  const metersNow = (): HostMeters => ({
    devices: Array.from({ length: spec.devices }, (_, rank) =>
      Array.from(progress.metersOf(rank), Number),
    ),
    reading: Array.from(progress.reading, Number),
  });
  const sleep = (ms: number) => new Promise<void>((resolve) => void clock.after(ms, resolve));
  const stepsNow = () => Atomics.load(progress.steps, 0);
  const startMs = clock.now();
  const isBefore = (ms: number) => clock.now() < startMs + ms;
  do await sleep(warmUpMs);
  while (!isOver() && stepsNow() < (isBefore(longestMs) ? warmUpSteps : 1));
  const found: StepTimes[] = [];
  const isEnough = () => found.length >= (isBefore(2 * longestMs) ? samples : 1);
  while (!isOver() && !isEnough()) {
    const [from, steps] = [metersNow(), stepsNow()];
    do await sleep(sampleMs);
    while (!isOver() && stepsNow() === steps);
    found.push(...[timesBetween([{ from, to: metersNow() }])].filter((one) => one !== undefined));
  }
  const fastest = (of: (times: StepTimes) => number) => fast(found.map(of)) / 1000;
  return {
    seconds: fastest(({ stepMs, shares }) => stepMs * (1 - shares.batch)),
    readSeconds: fast(found.flatMap(({ readMs }) => (readMs > 0 ? [readMs] : []))) / 1000,
    stepSeconds: fastest(({ stepMs }) => stepMs),
  };
}

function readyOf(device: Thread<DeviceCommand, DeviceReport>): Promise<void> {
  return new Promise((resolve) => {
    device.onReport(({ type }) => {
      if (type === "ready") resolve();
    });
  });
}

/** Rejects where the thread ends: a probe's threads are ended, they do not end. */
async function lossOf<Command, Report>({ ended }: Thread<Command, Report>): Promise<never> {
  const end = await ended;
  if (end.kind === "failed") throw new RemoteError(end.error);
  throw new PeerLostError("calibrate", end.kind === "lost" ? end.reason : "it ended by itself");
}

/** The tenth percentile: whatever else runs on the machine only makes steps longer. */
function fast(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 10)] ?? 0;
}

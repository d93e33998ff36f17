// Step probes: small jobs whose whole steps calibration measures. Each stresses one cost, so that
// the fit can separate the costs. All probes train on the same threads (time-steps.ts), in several
// passes: the first pass lets the JIT compile the programs, and a pause of the machine affects one
// pass only.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type JobOptions, type JobSpec, resolveJob } from "../../src/job/job.ts";
import type { MachineConstants } from "../../src/planner/cost/constants.ts";
import { fitStepCosts, type MeasuredStep } from "../../src/planner/cost/fit-step-costs.ts";
import type { StepCosts } from "../../src/planner/cost/step-costs.ts";
import { planOfFile } from "../../src/planner/shards.ts";
import { realDisk } from "../../src/ports/disk.ts";
import type { StepTimes } from "../../src/training/meters/step-meter.ts";
import { planJob } from "../../src/training/planning/plan-job.ts";
import { workloadOf } from "../../src/training/planning/workload.ts";
import { prepareData } from "../threads/data/prepare-data.ts";
import type { DataPlan } from "../threads/generation-spec.ts";
import { type ProbePorts, type SampleTimes, type TimedJob, timeSteps } from "./time-steps.ts";

/** The model and the data of a probe. */
interface Probe {
  readonly tables: number;
  readonly dim: number;
  readonly idsPerBag: number;
  readonly batchSize: number;
  readonly bottom: readonly number[];
  readonly top: readonly number[];
  readonly interaction: "dot" | "cat";
  /** Slices of the batch. @default 8 */
  readonly slices?: 256 | 64;
}

const tiny: Probe = {
  ...{ tables: 1, dim: 16, idsPerBag: 1, batchSize: 64 },
  ...{ bottom: [16], top: [1], interaction: "cat" },
};

/** The probes of a calibration: all but the first and the last three stress one cost each. */
export const usualProbes: readonly Probe[] = [
  tiny,
  { ...tiny, tables: 26 },
  { ...tiny, tables: 8, batchSize: 1024 },
  { ...tiny, tables: 4, dim: 64, batchSize: 512, bottom: [64] },
  { ...tiny, tables: 4, idsPerBag: 16, batchSize: 256 },
  { ...tiny, batchSize: 512, bottom: [64, 64, 16], top: [64, 64, 1] },
  { ...tiny, bottom: [512, 256, 16] },
  { ...tiny, bottom: [512, 256, 16], slices: 64 },
  { ...tiny, tables: 4, idsPerBag: 16, batchSize: 256, slices: 256 },
  { ...tiny, bottom: [16, 16, 16, 16], top: [16, 16, 16, 1] },
  { ...tiny, tables: 20, dim: 64, batchSize: 256, bottom: [64], interaction: "dot" },
  {
    ...{ tables: 26, dim: 16, idsPerBag: 1, batchSize: 256 },
    ...{ bottom: [64, 32, 16], top: [64, 32, 1], interaction: "dot" },
  },
  {
    ...{ tables: 12, dim: 32, idsPerBag: 3, batchSize: 512 },
    ...{ bottom: [256, 128, 32], top: [256, 128, 1], interaction: "dot" },
  },
  {
    ...{ tables: 6, dim: 16, idsPerBag: 1, batchSize: 512 },
    ...{ bottom: [32, 16], top: [64, 1], interaction: "dot" },
  },
];

/** Durations of the probes: all probes in a pass that only compiles, then in passes that count. */
export interface ProbeTimes {
  readonly compiling: SampleTimes;
  readonly counting: SampleTimes;
  readonly passes: number;
}

/** Speeds of devices if this number of them measure in parallel (step-costs.ts). */
export type Speeds = Pick<StepCosts, "devices" | "rowSpeed" | "denseSpeed">;

export interface ProbeOptions {
  /** Numbers of devices that each probe is trained on, in turn. */
  readonly devices: readonly Speeds[];
  readonly arithmetic: "auto" | "native" | "reference";
  readonly probes?: readonly Probe[];
  readonly times?: ProbeTimes;
  /** Called repeatedly with the share of all measurements that is done. */
  readonly onProgress?: (done: number) => void;
}

const usualTimes: ProbeTimes = {
  compiling: { warmUpMs: 250, warmUpSteps: 200, longestMs: 600, sampleMs: 4, samples: 0 },
  counting: { warmUpMs: 40, warmUpSteps: 50, longestMs: 200, sampleMs: 4, samples: 20 },
  passes: 3,
};

/**
 * Measures and fits the costs of a step on each of the given numbers of devices, given the other
 * constants.
 * @throws PeerLostError, or the thread's own error as a RemoteError, where a thread fails
 */
export async function measureSteps(
  constants: MachineConstants,
  options: ProbeOptions,
  ports: ProbePorts,
): Promise<StepCosts[]> {
  const { devices, arithmetic, probes = usualProbes, times = usualTimes, onProgress } = options;
  const { compiling, counting, passes } = times;
  const directory = mkdtempSync(join(tmpdir(), "osiris-calibrate-"));
  const costs: StepCosts[] = [];
  try {
    const given = probes.map((probe) => ({ ...jobOf(probe, directory), arithmetic }));
    const prepared: DataPlan[] = [];
    for (const job of given) prepared.push(await prepareData(resolveJob(job), realDisk, () => {}));
    for (const [i, speeds] of devices.entries()) {
      const jobs = given.map((job) => plannedJob(job, speeds.devices, constants));
      const pass = (of: SampleTimes) =>
        jobs.flatMap((job, probe): TimedJob[] => {
          const data = prepared[probe];
          return data === undefined ? [] : [{ job, data, times: of }];
        });
      const all = [...pass(compiling), ...Array.from({ length: passes }, () => pass(counting))];
      const timed = all.flat();
      const samples = await timeSteps(timed, speeds.devices, ports, (done) => {
        if (done % jobs.length === 0) onProgress?.((i + done / timed.length) / devices.length);
      });
      const measured = jobs.flatMap((job, probe) => {
        const own = samples.filter((_, at) => at % jobs.length === probe);
        return measuredStep(job, speeds.devices, constants, own);
      });
      costs.push(fitStepCosts(speeds, measured));
    }
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
  return costs;
}

function measuredStep(
  job: JobSpec,
  devices: number,
  constants: MachineConstants,
  passes: readonly (readonly StepTimes[])[],
): MeasuredStep[] {
  if (job.plan === undefined) return [];
  const seconds = quietest(passes, ({ stepMs, shares }) => stepMs * (1 - shares.batch)) / 1000;
  const readSeconds = quietest(passes, ({ readMs }) => readMs) / 1000;
  if (!(seconds > 0)) return [];
  return [
    {
      setting: settingOf(job, devices, constants),
      plan: planOfFile(job.plan),
      seconds,
      readSeconds,
    },
  ];
}

/** Samples of a probe's data: enough that the readers read various pages of a real cache. */
const samplesOfProbe = 4096;
const endlessEpochs = 100_000;

function jobOf(probe: Probe, directory: string): JobOptions {
  const { tables, dim, idsPerBag, batchSize, bottom, top, interaction, slices = 8 } = probe;
  const dense = 8;
  return {
    model: {
      kind: "dlrm",
      dense,
      tables: Array.from({ length: tables }, (_, i) => ({ name: `T${i}`, rows: 10_000, dim })),
      ...{ bottom: [...bottom], top: [...top], interaction },
    },
    sharding: "as-written",
    slices,
    data: {
      ...{ kind: "synthetic", samples: samplesOfProbe, dense, batchSize, idsPerBag },
      ...{ epochs: endlessEpochs, cache: directory },
    },
    checkpoint: { directory: join(directory, "none") },
  };
}

/** The job of a probe, with the plan that its run would follow. */
function plannedJob(options: JobOptions, devices: number, constants: MachineConstants): JobSpec {
  const job = resolveJob(options);
  const found = planJob(job, { devices: { hosts: 1, perHost: devices }, constants });
  if (!found.isFeasible) throw new RangeError("A probe fits any device");
  return resolveJob({ ...options, plan: JSON.parse(found.text) });
}

function settingOf(job: JobSpec, devices: number, constants: MachineConstants) {
  return { workload: workloadOf(job), devices: { hosts: 1, perHost: devices }, constants };
}

/**
 * Returns the least of the passes' medians: the typical value on an otherwise idle machine. 0:
 * nothing was sampled.
 */
export function quietest(
  passes: readonly (readonly StepTimes[])[],
  of: (times: StepTimes) => number,
): number {
  const medians = passes.flatMap((samples) => {
    const sorted = samples
      .map(of)
      .filter((value) => value > 0)
      .sort((a, b) => a - b);
    return sorted[Math.floor(sorted.length / 2)] ?? [];
  });
  return medians.length === 0 ? 0 : Math.min(...medians);
}

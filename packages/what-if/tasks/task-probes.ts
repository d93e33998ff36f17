// Task probes: random small jobs, whose tasks are timed on this machine, so that the costs of their
// units can be fitted (task-costs.ts). All train on the same threads, in a pass that only compiles
// the programs and in passes that count.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import {
  graphOf,
  type JobOptions,
  type MachineConstants,
  type ProbePorts,
  planJob,
  prepareData,
  realDisk,
  resolveJob,
  type SampleTimes,
  type TimedJob,
  timeSteps,
  workloadOf,
} from "../../../internal.ts";
import { type JobDraw, type RandomJob, randomJob } from "./random-jobs.ts";
import { fitTaskCosts, type MeasuredTasks, type TaskCosts } from "./task-costs.ts";
import { type TaskTimes, taskTimesOf } from "./task-times.ts";
import { taskUnitsOf } from "./task-units.ts";

/** How many probes are timed, and for how long. */
export interface Probing {
  readonly probes: number;
  /** Most ids of a batch; and multiplications and additions of its dense layers. */
  readonly limits: Pick<JobDraw, "idsMax" | "flopMax">;
  readonly passes: number;
  readonly compiling: SampleTimes;
  readonly counting: SampleTimes;
}

export const usualProbing: Probing = {
  ...{ probes: 40, limits: { idsMax: 120_000, flopMax: 1.6e9 }, passes: 3 },
  compiling: { warmUpMs: 200, warmUpSteps: 40, longestMs: 300, sampleMs: 4, samples: 0 },
  counting: { warmUpMs: 200, warmUpSteps: 8, longestMs: 600, sampleMs: 4, samples: 1 },
};

/** Takes a second, for approximate costs. */
export const briefProbing: Probing = {
  ...{ probes: 3, limits: { idsMax: 30_000, flopMax: 3e8 }, passes: 1 },
  compiling: { warmUpMs: 1, warmUpSteps: 2, longestMs: 100, sampleMs: 2, samples: 0 },
  counting: { warmUpMs: 1, warmUpSteps: 6, longestMs: 1000, sampleMs: 2, samples: 1 },
};

/** The seed of all probes: the usual ones have steps of 1 to 50 ms on one core. */
const probeSeed = 4242;

/**
 * From now on V8 compiles a function after a quarter of the usual work in it: a run's programs are
 * compiled for most of its time, and probes are short.
 */
const compileSoon = "--interrupt-budget=16000";

export interface ProbedTasks extends MeasuredTasks {
  readonly probe: number;
  readonly devices: number;
}

/** Times the probes, and fits the costs, on each of the given numbers of devices. */
export async function measureTasks(
  constants: MachineConstants,
  counts: readonly number[],
  ports: ProbePorts,
  probing: Probing = usualProbing,
  onProbed: (probed: readonly ProbedTasks[]) => void = () => {},
): Promise<TaskCosts[]> {
  setFlagsFromString(compileSoon);
  const found: TaskCosts[] = [];
  for (const devices of counts) {
    const probed = await probeTasks(constants, devices, ports, probing);
    onProbed(probed);
    found.push(fitTaskCosts(devices, probed));
  }
  return found;
}

async function probeTasks(
  constants: MachineConstants,
  devices: number,
  ports: ProbePorts,
  { probes, limits, passes, compiling, counting }: Probing,
): Promise<ProbedTasks[]> {
  const home = mkdtempSync(join(tmpdir(), "osiris-calibrate-"));
  try {
    const jobs = Array.from({ length: probes }, (_, probe) => {
      const own = { index: probe, devices: [devices], ...limits };
      return { probe, ...plannedProbe(own, join(home, `${probe}`), constants) };
    });
    const timed: Omit<TimedJob, "times">[] = [];
    for (const { job } of jobs)
      timed.push({ job, data: await prepareData(job, realDisk, () => {}) });
    const all = [compiling, ...Array.from({ length: passes }, () => counting)].flatMap((times) =>
      timed.map((one) => ({ ...one, times })),
    );
    const taken: TaskTimes[][] = [];
    await timeSteps(all, devices, ports, (_, recordsOf) => {
      taken.push(Array.from({ length: devices }, (_own, rank) => taskTimesOf(recordsOf(rank))));
    });
    return jobs.flatMap(({ probe, counted }, index) => {
      const unitsOf = taskUnitsOf(counted);
      const times = Array.from({ length: devices }, (_, rank) => {
        const own = taken.flatMap((ranks, at) => {
          const isCounted = at >= jobs.length && at % jobs.length === index;
          const found = ranks[rank] ?? {};
          return isCounted && Object.keys(found).length > 0 ? [found] : [];
        });
        return medianOf(own);
      });
      // On a busy machine a probe may end before a whole step did.
      if (times.some((own) => Object.keys(own).length === 0)) return [];
      return withJitter(times).map((own, rank) => {
        return { probe, devices, units: unitsOf(rank), times: own };
      });
    });
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
}

/** A probe with the plan that its run would follow. */
export function plannedProbe(
  probe: Omit<JobDraw, "seed" | "mayCache">,
  home: string,
  constants: MachineConstants,
) {
  const drawn = randomJob({ seed: probeSeed, mayCache: true, ...probe });
  const options = jobOf(drawn, home);
  const on = { hosts: 1, perHost: drawn.devices };
  const found = planJob(resolveJob(options), { devices: on, constants });
  if (!found.isFeasible) throw new RangeError("A probe fits any device");
  const job = resolveJob({ ...options, plan: JSON.parse(found.text) });
  const setting = { workload: workloadOf(job), devices: on, constants };
  const { exchange, model } = job;
  return { job, counted: { setting, plan: found.plan, graph: graphOf(model), exchange } };
}

/** Of each task the median of the passes: a neighbour may disturb one of them. */
function medianOf(all: readonly TaskTimes[]): TaskTimes {
  const names = new Set(all.flatMap((own) => Object.keys(own)));
  return Object.fromEntries(
    [...names].map((name) => {
      const sorted = all.map((own) => own[name] ?? 0).sort((a, b) => a - b);
      return [name, sorted[Math.floor(sorted.length / 2)] ?? 0];
    }),
  );
}

/**
 * What the device that works longest still waits for others is added to the tasks of all, in their
 * proportion: devices that are slower in turns wait for each other, in a simulation of mean times
 * they do not.
 */
function withJitter(ranks: readonly TaskTimes[]): TaskTimes[] {
  const isOfOthers = (name: string) => name.startsWith("wait.") && !ownWaits.has(name);
  const sumOf = (times: TaskTimes, isCounted: (name: string) => boolean) =>
    Object.entries(times).reduce((sum, [name, own]) => sum + (isCounted(name) ? own : 0), 0);
  const isWork = (name: string) => !name.startsWith("wait.");
  const waited = Math.min(...ranks.map((times) => sumOf(times, isOfOthers)));
  const worked = Math.max(...ranks.map((times) => sumOf(times, isWork)));
  const factor = worked > 0 ? 1 + waited / worked : 1;
  return ranks.map((times) =>
    Object.fromEntries(
      Object.entries(times).map(([name, own]) => [name, isWork(name) ? factor * own : own]),
    ),
  );
}

/** Waits for no other device. */
const ownWaits: ReadonlySet<string> = new Set(["wait.batch", "wait.tiers", "wait.checkpoint"]);

function jobOf({ options }: RandomJob, home: string): JobOptions {
  const { tiers, data, ...others } = options;
  return {
    ...others,
    data: { ...data, cache: join(home, "cache") } as JobOptions["data"],
    // Without batches ahead, a device waits for all that its tiers do, so that it can be timed.
    ...(tiers !== undefined && { tiers, pipeline: { depth: 1 as const } }),
    checkpoint: { directory: join(home, "none") },
  };
}

// Task probes: random small jobs, whose tasks are timed on this machine, so that the costs of their
// units can be fitted (task-costs.ts). All train on the same threads, in a few passes.

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
  type StepFacts,
  type TimedJob,
  timeSteps,
  workloadOf,
} from "../../../internal.ts";
import { simulateSteps } from "../engine/simulate-steps.ts";
import { hardwareSchema } from "../hardware/hardware.ts";
import type { DeviceCosts } from "../model.ts";
import { stepFactsOfPlan } from "../predict/step-facts.ts";
import { cachedBatches, type JobDraw, type RandomJob, randomJob } from "./random-jobs.ts";
import { fitTaskCosts, type MeasuredTasks, type TaskCosts } from "./task-costs.ts";
import { type TaskTimes, taskTimesOf } from "./task-times.ts";
import { repeatedBatches, taskUnitsOf } from "./task-units.ts";

/** How many probes are timed, and for how long. */
export interface Probing {
  readonly probes: number;
  /** Most ids of a batch; and multiplications and additions of its dense layers. */
  readonly limits: Pick<JobDraw, "idsMax" | "flopMax">;
  /** A step is counted if it began in the sample. */
  readonly counting: SampleTimes;
  /** The warm-up of cached tables: all batches, so that each new row replaces another one. */
  readonly filling: Pick<SampleTimes, "warmUpSteps" | "longestMs">;
}

export const usualProbing: Probing = {
  ...{ probes: 40, limits: { idsMax: 120_000, flopMax: 1.6e9 } },
  counting: { warmUpMs: 250, warmUpSteps: 6, longestMs: 500, sampleMs: 300, samples: 1 },
  filling: { warmUpSteps: cachedBatches + 8, longestMs: 6000 },
};

/** Takes a second, for approximate costs. */
export const briefProbing: Probing = {
  ...{ probes: 3, limits: { idsMax: 30_000, flopMax: 3e8 } },
  counting: { warmUpMs: 1, warmUpSteps: 6, longestMs: 1000, sampleMs: 2, samples: 1 },
  filling: { warmUpSteps: 6, longestMs: 1000 },
};

/** In the first pass V8 compiles most of the programs; probes with cached tables miss it. */
const passes = 3;

/** The seed of all probes: the usual ones have steps of 1 to 50 ms on one core. */
const probeSeed = 4242;

/**
 * From now on V8 compiles a function after a quarter of the usual work in it: a run's programs are
 * compiled for most of its time, and probes are short.
 */
const compileSoon = "--interrupt-budget=16000";

/** A device of a probe; its tasks without waits. */
export interface ProbedTasks extends MeasuredTasks {
  readonly probe: number;
  readonly devices: number;
  readonly facts: StepFacts;
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
    onProbed(probed.flat());
    found.push(fitTaskCosts(devices, probed.flatMap(withJitter)));
  }
  return found;
}

async function probeTasks(
  constants: MachineConstants,
  devices: number,
  ports: ProbePorts,
  { probes, limits, counting, filling }: Probing,
): Promise<ProbedTasks[][]> {
  const home = mkdtempSync(join(tmpdir(), "osiris-calibrate-"));
  try {
    const jobs = Array.from({ length: probes }, (_, probe) => {
      const own = { index: probe, devices: [devices], ...limits };
      return { probe, ...plannedProbe(own, join(home, `${probe}`), constants) };
    });
    const timed: Omit<TimedJob, "times">[] = [];
    for (const { job } of jobs)
      timed.push({ job, data: await prepareData(job, realDisk, () => {}) });
    const runs = Array.from({ length: passes }, (_, pass) =>
      timed.flatMap((one, at) => {
        const isCached = one.job.model.tables.some(({ tier }) => tier === "cached");
        if (isCached && pass === 0) return [];
        return { at, ...one, times: { ...counting, ...(isCached && filling) } };
      }),
    ).flat();
    const taken: TaskTimes[][] = [];
    await timeSteps(runs, devices, ports, (_, recordsOf) => {
      const timesOf = (rank: number) => taskTimesOf(recordsOf(rank), counting.sampleMs);
      taken.push(Array.from({ length: devices }, (_own, rank) => timesOf(rank)));
    });
    return jobs.flatMap(({ probe, counted, job }, index) => {
      const unitsOf = taskUnitsOf(counted);
      // On a busy machine a pass may end before a whole step did. Of the others the fastest counts:
      // a virtual machine's neighbours make its cores slower, for seconds at a time.
      const [times] = taken
        .filter((own, run) => {
          return runs[run]?.at === index && own.every((of) => Object.keys(of).length > 0);
        })
        .sort((one, other) => stepOf(one) - stepOf(other));
      if (times === undefined) return [];
      const facts = stepFactsOfPlan({
        job,
        plan: counted.plan,
        devices: { hosts: 1, perHost: devices },
      });
      return [
        times.map((own, rank) => ({ probe, devices, facts, units: unitsOf(rank), times: own })),
      ];
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
  const counted = { setting, plan: found.plan, graph: graphOf(model), exchange };
  return { job, counted: { ...counted, repeated: repeatedBatches(job) } };
}

/** Seconds of a step: its tasks and waits, on the device that has most of them. */
function stepOf(ranks: readonly TaskTimes[], isCounted: (name: string) => boolean = () => true) {
  const steps = ranks.map((times) =>
    Object.entries(times).reduce((sum, [name, own]) => sum + (isCounted(name) ? own : 0), 0),
  );
  return Math.max(...steps);
}

/** The machine of a simulated probe: its devices share memory, so that their tasks copy. */
const sharing = (() => {
  const memory = { bytes: 1, bandwidth: 1 };
  return hardwareSchema.parse({
    ...{ name: "probes", source: "none" },
    host: { devices: 1, memory, ingestion: 1 },
    device: {
      memory: { ...memory, lookups: 1 },
      ...{ flops: { float32: 1 }, gemmShare: 1, idSort: 0, hostLink: 1 },
    },
    scaleOut: { latency: 1, bandwidth: 1, isShared: true },
  });
})();

/**
 * The devices of a probe wait longer for each other than in a simulation of their mean times, as
 * they are slower in turns. The difference is added to the tasks of all, in their proportion.
 */
export function withJitter(ranks: readonly ProbedTasks[]): MeasuredTasks[] {
  const [{ facts } = {}] = ranks;
  if (facts === undefined) return [];
  const isWork = (name: string) => !name.startsWith("wait.");
  const memory = { device: 0, host: 0, disk: 0 };
  const classes = ranks.map(({ times }, rank): DeviceCosts => {
    const work = Object.entries(times).filter(([name]) => isWork(name));
    const tasks = work.map(([name, own]) => [name, { seconds: own }] as const);
    const batch = { seconds: (times.batch ?? 0) + (times.between ?? 0) };
    return {
      ...{ ranks: [rank], tasks: { ...Object.fromEntries(tasks), batch } },
      ...{ sent: {}, received: {}, memory, memoryThere: memory },
    };
  });
  const costs = { hosts: 1, perHost: ranks.length, classes, serverHosts: 0 };
  const reading = { seconds: 0, readers: 1 };
  const simulated = simulateSteps(facts, { ...costs, reading }, sharing, { traced: 0 }).step;
  const step = stepOf(
    ranks.map(({ times }) => times),
    (name) => !ownWaits.has(name),
  );
  const factor = Math.max(1, step / simulated);
  return ranks.map(({ units, times }) => {
    const own = Object.entries(times).map(([name, took]) => {
      return [name, isWork(name) ? factor * took : took];
    });
    return { units, times: Object.fromEntries(own) };
  });
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

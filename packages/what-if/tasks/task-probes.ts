// Measures this machine: rates of kernels and of the exchange, and steps of small jobs, the probes.
// The planner's costs of a step and the simulator's costs of tasks are both fitted to these. All
// probes train on the same threads, in a few passes.

import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import {
  type DataPlan,
  graphOf,
  type JobOptions,
  type JobSpec,
  type MachineConstants,
  measureRates,
  type ProbePorts,
  planJob,
  prepareData,
  quietest,
  type RateOptions,
  realClock,
  realDisk,
  resolveJob,
  type SampleTimes,
  type StepCosts,
  type StepFacts,
  type StepTimes,
  temporaryHome,
  timeSteps,
  workerLauncher,
  workloadOf,
} from "../../../internal.ts";
import { simulateSteps } from "../engine/simulate-steps.ts";
import { hardwareSchema } from "../hardware/hardware.ts";
import type { DeviceCosts } from "../model.ts";
import { stepFactsOfPlan } from "../predict/step-facts.ts";
import { fitStepCosts, type MeasuredStep } from "./fit-step-costs.ts";
import { boundOf, fasterHalf, levelReader } from "./machine-level.ts";
import { type JobDraw, type RandomJob, randomJob } from "./random-jobs.ts";
import {
  type StepProbe,
  type StepProbeTimes,
  stepJob,
  stepProbes,
  stepProbeTimes,
} from "./step-probes.ts";
import { fitTaskCosts, type MeasuredTasks, type TaskCosts } from "./task-costs.ts";
import { meanTimes, type TaskTimes, taskTimesOf } from "./task-times.ts";
import { repeatedBatches, type TaskUnits, taskUnitsOf } from "./task-units.ts";

/** Which probes are timed, and for how long. */
export interface Probing {
  readonly steps: readonly StepProbe[];
  readonly stepTimes: StepProbeTimes;
  /** Random probes; 0: the costs of tasks are not measured. */
  readonly probes: number;
  /** Most ids of a random probe's batch; and multiplications and additions of its dense layers. */
  readonly limits: Pick<JobDraw, "idsMax" | "flopMax">;
  /** Passes of random probes that count; V8 compiles most of their programs in one before these. */
  readonly passes: number;
  /** Durations of a pass of a random probe. A step is counted if it began in the sample. */
  readonly counting: SampleTimes;
  /** The warm-up of cached tables: all batches, so that each new row replaces another one. */
  readonly filling: Pick<SampleTimes, "warmUpSteps" | "longestMs">;
}

/** Batches of a probe with cached tables: few, as each pass first warms up with all of them. */
const cachedBatches = 32;

export const usualProbing: Probing = {
  ...{ steps: stepProbes, stepTimes: stepProbeTimes },
  ...{ probes: 40, limits: { idsMax: 120_000, flopMax: 1.6e9 }, passes: 4 },
  counting: { warmUpMs: 150, warmUpSteps: 6, longestMs: 500, sampleMs: 200, samples: 1 },
  filling: { warmUpSteps: cachedBatches + 8, longestMs: 6000 },
};

const brief = { warmUpMs: 1, warmUpSteps: 2, longestMs: 100, sampleMs: 2 };

/** Takes a second, for approximate costs. */
export const briefProbing: Probing = {
  ...{ steps: stepProbes.slice(0, 2) },
  stepTimes: { compiling: { ...brief, samples: 0 }, counting: { ...brief, samples: 3 } },
  ...{ probes: 3, limits: { idsMax: 30_000, flopMax: 3e8 }, passes: 2 },
  counting: { warmUpMs: 1, warmUpSteps: 6, longestMs: 1000, sampleMs: 2, samples: 1 },
  filling: { warmUpSteps: 6, longestMs: 1000 },
};

/** Passes of step probes that count, after a first pass in which V8 compiles their programs. */
const stepPasses = 3;

/** The seed of all random probes: the usual ones have steps of 1 to 50 ms on one core. */
const probeSeed = 4242;

/**
 * Lets V8 compile a function after a quarter of the usual work in it. A run executes compiled code
 * for most of its time, and probes are short.
 */
const compileSoon = "--interrupt-budget=16000";

/** Share of the time that rates take, where the planner's constants alone are measured. */
const ratesShare = 0.2;

/** A device of a probe, with the facts of its steps. */
export interface ProbedTasks extends MeasuredTasks {
  readonly facts: StepFacts;
}

/** A pass of a random probe. */
export interface ProbePass {
  /** The lower of the levels before and after it (machine-level.ts). */
  readonly level: number;
  /** Its tasks and waits, device by device. */
  readonly times: readonly TaskTimes[];
}

/** A random probe with all that was measured of it. */
export interface ProbedJob {
  readonly probe: number;
  readonly devices: number;
  readonly facts: StepFacts;
  /** The units of each device. */
  readonly units: readonly TaskUnits[];
  readonly passes: readonly ProbePass[];
}

/** Options of `calibrate`. */
export interface MachineOptions extends RateOptions {
  readonly probing?: Probing;
  /** Called repeatedly with the share of all measurements that is done. */
  readonly onProgress?: ((done: number) => void) | undefined;
  /** Called with the random probes on a number of devices. */
  readonly onProbed?: (probed: readonly ProbedJob[]) => void;
}

/** This machine, measured once for both uses. */
export interface MeasuredMachine {
  /** For the planner: rates, and costs of whole steps on each number of devices in `stepsOn`. */
  readonly constants: MachineConstants;
  /** For the simulator: costs of tasks; empty without random probes. */
  readonly tasks: readonly TaskCosts[];
}

/**
 * Measures this machine, in twenty seconds or, with random probes, in some minutes.
 * @throws PeerLostError, or the thread's own error as a RemoteError, where a thread fails
 */
export async function measureMachine(
  options: MachineOptions,
  ports: ProbePorts = { launcher: workerLauncher, clock: realClock },
): Promise<MeasuredMachine> {
  const { probing = usualProbing, onProgress, onProbed, arithmetic = "auto" } = options;
  const rates = await measureRates(options, ports.launcher);
  const { steps: speeds } = rates;
  if (speeds.length > 0) onProgress?.(ratesShare);
  const measuresTasks = probing.probes > 0;
  if (measuresTasks) setFlagsFromString(compileSoon);
  const steps: StepCosts[] = [];
  const tasks: TaskCosts[] = [];
  for (const [i, speed] of speeds.entries()) {
    const found = await timeProbes(rates, speed.devices, { probing, arithmetic }, ports, (done) => {
      onProgress?.(ratesShare + ((1 - ratesShare) * (i + done)) / speeds.length);
    });
    steps.push(fitStepCosts(speed, found.steps));
    if (!measuresTasks) continue;
    onProbed?.(found.random);
    tasks.push(costsOf(speed.devices, found.random));
  }
  return { constants: { ...rates, steps }, tasks };
}

/** The costs at the fastest level of the machine. */
export function costsOf(devices: number, probed: readonly ProbedJob[]): TaskCosts {
  const levels = probed.flatMap(({ passes }) => passes.map(({ level }) => level));
  const bound = boundOf(levels);
  const above = levels.filter((level) => level > bound).sort((a, b) => a - b);
  const measured = probed.flatMap((one) => withJitter(meanOfPasses(one, bound)));
  return { ...fitTaskCosts(devices, measured), level: above[Math.floor(above.length / 2)] };
}

/** Mean times of each device over the fast half of passes above `bound`; empty without such. */
function meanOfPasses({ facts, units, passes }: ProbedJob, bound: number): ProbedTasks[] {
  const above = passes.filter(({ level }) => level > bound);
  const fast = fasterHalf(above, ({ times }) => stepOf(times));
  if (fast.length === 0) return [];
  return units.map((ofDevice, rank) => {
    return { facts, units: ofDevice, times: meanTimes(fast.map(({ times }) => times[rank] ?? {})) };
  });
}

/**
 * Measures this machine, and returns its constants for the planner: seconds and bytes per second.
 * @throws PeerLostError, or the thread's own error as a RemoteError, where a thread fails
 */
export async function calibrate(options: MachineOptions): Promise<MachineConstants> {
  const probing = { ...(options.probing ?? usualProbing), probes: 0 };
  return (await measureMachine({ ...options, probing })).constants;
}

/** A planned probe. A step probe is timed by whole steps, a random probe by its tasks. */
interface Probe extends ReturnType<typeof plannedJob> {
  /** By pass. */
  readonly times: readonly (SampleTimes | undefined)[];
}

/** A pass of a probe: the steps of its samples, and its tasks. */
interface Pass extends ProbePass {
  readonly probe: Probe;
  readonly pass: number;
  readonly samples: readonly StepTimes[];
}

async function timeProbes(
  constants: MachineConstants,
  devices: number,
  how: { readonly probing: Probing; readonly arithmetic: JobSpec["arithmetic"] },
  ports: ProbePorts,
  onProgress: (done: number) => void,
): Promise<{ readonly steps: MeasuredStep[]; readonly random: ProbedJob[] }> {
  using home = temporaryHome("osiris-calibrate-");
  const probes = probesIn(home.path, constants, devices, how);
  const data: DataPlan[] = [];
  for (const { job } of probes) data.push(await prepareData(job, realDisk, () => {}));
  const longest = Math.max(...probes.map(({ times }) => times.length));
  const runs = Array.from({ length: longest }, (_, pass) =>
    probes.flatMap((probe, i) => {
      const [times, plan] = [probe.times[pass], data[i]];
      if (times === undefined || plan === undefined) return [];
      return [{ probe, pass, job: probe.job, data: plan, times }];
    }),
  ).flat();
  const { sampleMs } = how.probing.counting;
  const read = how.probing.probes > 0 ? levelReader() : () => 0;
  const taken: ProbePass[] = [];
  let before = read();
  const samples = await timeSteps(runs, devices, ports, (done, recordsOf) => {
    const timesOf = (rank: number) => taskTimesOf(recordsOf(rank), sampleMs);
    const times = Array.from({ length: devices }, (_own, rank) => timesOf(rank));
    const after = read();
    taken.push({ level: Math.min(before, after), times });
    before = after;
    onProgress(done / runs.length);
  });
  const found = runs.map(({ probe, pass }, i): Pass => {
    return { probe, pass, samples: samples[i] ?? [], ...(taken[i] ?? { level: 0, times: [] }) };
  });
  const passesOf = (probe: Probe) => found.filter((pass) => pass.probe === probe);
  const [ofSteps, random] = [
    probes.slice(0, how.probing.steps.length),
    probes.slice(how.probing.steps.length),
  ];
  return {
    steps: ofSteps.flatMap((probe) => measuredStep(probe, passesOf(probe)) ?? []),
    random: random.map((probe, number) => {
      return probedJob(probe, { probe: number, devices }, passesOf(probe));
    }),
  };
}

function probesIn(
  home: string,
  constants: MachineConstants,
  devices: number,
  { probing, arithmetic }: Parameters<typeof timeProbes>[2],
): Probe[] {
  const { steps, stepTimes, probes, limits, passes, counting, filling } = probing;
  const ofSteps = steps.map((probe): Probe => {
    const times = [stepTimes.compiling, ...Array(stepPasses).fill(stepTimes.counting)];
    const options = { ...stepJob(probe, home), arithmetic };
    return { times, ...plannedJob(options, devices, constants) };
  });
  const random = Array.from({ length: probes }, (_, number): Probe => {
    const draw = { index: number, devices: [devices], ...limits };
    const planned = plannedProbe(draw, join(home, `${number}`), constants, arithmetic);
    const isCached = planned.job.model.tables.some(({ tier }) => tier === "cached");
    const pass = { ...counting, ...(isCached && filling) };
    // The first pass does not count; caches need not be filled for it.
    return { times: [isCached ? undefined : pass, ...Array(passes).fill(pass)], ...planned };
  });
  return [...ofSteps, ...random];
}

/** The whole step of a probe, in the passes that count; undefined: none was sampled. */
function measuredStep({ counted }: Probe, found: readonly Pass[]): MeasuredStep | undefined {
  const samples = found.map((pass) => pass.samples);
  const seconds = quietest(samples, ({ stepMs, shares }) => stepMs * (1 - shares.batch)) / 1000;
  const readSeconds = quietest(samples, ({ readMs }) => readMs) / 1000;
  const { setting, plan } = counted;
  return seconds > 0 ? { setting, plan, seconds, readSeconds } : undefined;
}

/** A random probe with the passes that count. */
function probedJob(
  { job, counted }: Probe,
  own: Pick<ProbedJob, "probe" | "devices">,
  found: readonly Pass[],
): ProbedJob {
  const unitsOf = taskUnitsOf(counted);
  const devices = { hosts: 1, perHost: own.devices };
  return {
    ...own,
    facts: stepFactsOfPlan({ job, plan: counted.plan, devices }),
    units: Array.from({ length: own.devices }, (_, rank) => unitsOf(rank)),
    // On a busy machine a pass may end before a whole step did.
    passes: found
      .filter(({ pass, times }) => pass > 0 && times.every((of) => Object.keys(of).length > 0))
      .map(({ level, times }) => ({ level, times })),
  };
}

/** A random probe with the plan that its run would follow. */
export function plannedProbe(
  probe: Omit<JobDraw, "seed" | "cachedBatches">,
  home: string,
  constants: MachineConstants,
  arithmetic: JobSpec["arithmetic"] = "auto",
) {
  const drawn = randomJob({ seed: probeSeed, cachedBatches, ...probe });
  return plannedJob({ ...jobOf(drawn, home), arithmetic }, drawn.devices, constants);
}

function plannedJob(options: JobOptions, perHost: number, constants: MachineConstants) {
  const devices = { hosts: 1, perHost };
  const found = planJob(resolveJob(options), { devices, constants });
  if (!found.isFeasible) throw new RangeError("A probe fits any device");
  const job = resolveJob({ ...options, plan: JSON.parse(found.text) });
  const setting = { workload: workloadOf(job), devices, constants };
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
  const [rate, memory] = [1e9, { bytes: 1e9, bandwidth: 1e9 }];
  return hardwareSchema.parse({
    ...{ name: "probes", source: "none" },
    host: { devices: 1, memory, ingestion: rate },
    device: {
      memory: { ...memory, lookups: rate },
      ...{ flops: { float32: rate }, gemmShare: 1, idSort: 0, hostLink: rate },
    },
    scaleOut: { latency: 1, bandwidth: rate, isShared: true },
  });
})();

/**
 * Devices of a probe wait longer for each other than in a simulation of their mean times, because
 * each is slower than its mean in some steps. The tasks of all are lengthened by that factor.
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
    const scaled = Object.entries(times).map(([name, took]) => {
      return [name, isWork(name) ? factor * took : took];
    });
    return { units, times: Object.fromEntries(scaled) };
  });
}

/** Waits that do not depend on other devices. */
const ownWaits: ReadonlySet<string> = new Set(["wait.batch", "wait.tiers", "wait.checkpoint"]);

function jobOf({ options }: RandomJob, home: string): JobOptions {
  const { tiers, data, ...others } = options;
  return {
    ...others,
    data: { ...data, cache: join(home, "cache") } as JobOptions["data"],
    // Without batches ahead, a device waits for all the work of its tiers, which can so be timed.
    ...(tiers !== undefined && { tiers, pipeline: { depth: 1 as const } }),
    checkpoint: { directory: join(home, "none") },
  };
}

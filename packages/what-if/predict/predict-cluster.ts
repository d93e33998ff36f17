// Predicts the training of a job on a cluster: plans it for these machines, costs a step by the
// plan, simulates steps, and adds memory, failures, price and energy. Planning takes longest; so a
// planned job can be simulated again on other machines, or as another job, by the same plan.

import {
  ClusterTooSmallError,
  checkSynchronous,
  expected,
  type JobOptions,
  type JobSpec,
  type Plan,
  planJob,
  resolveJob,
  type StepFacts,
  type WorkloadOptions,
} from "../../../internal.ts";
import { type CostOptions, costsOfCluster } from "../costs/costs-of-cluster.ts";
import { simulateSteps } from "../engine/simulate-steps.ts";
import { constantsOf, withCachesOf } from "../hardware/constants-of.ts";
import { readHardware } from "../hardware/read-hardware.ts";
import type {
  ClusterDevices,
  DeviceCosts,
  Hardware,
  Prediction,
  StepCostsOfCluster,
} from "../model.ts";
import { bottleneckOf } from "./bottleneck.ts";
import { clusterMtbf, goodputOf } from "./goodput.ts";
import { stepFactsOfPlan } from "./step-facts.ts";

export interface PredictOptions extends WorkloadOptions, Pick<CostOptions, "precision"> {
  readonly hosts: number;
  /** Devices of all hosts together. @default as many as the hosts have */
  readonly devices?: number | undefined;
  /** Seconds of training between checkpoints. @default the best for the failures of the hosts */
  readonly checkpointEvery?: number | undefined;
  /** Seconds from a failure to the begin of a restore. @default 60 */
  readonly restartSeconds?: number | undefined;
  /** Whether devices overlap tasks as GPUs do. @default unless the machine was measured */
  readonly streams?: boolean | undefined;
  /** Whether the error of a job that does not fit names what would help, which takes longer. */
  readonly advise?: boolean | undefined;
}

/** A job with its plan for a cluster. */
export interface PlannedCluster {
  readonly job: JobSpec;
  readonly devices: ClusterDevices;
  readonly plan: Plan;
  readonly options: PredictOptions;
  /** What decides the tasks of a step. */
  readonly facts: StepFacts;
  /** What a run of the job by this plan would need first, a sentence each. */
  readonly missing: readonly string[];
}

/** Seconds to notice a failure and start again: assumed, as no hardware file has it. */
const usualRestart = 60;

/**
 * The prediction for `job` on hosts of one kind.
 * @throws ClusterTooSmallError if no plan fits their memory, InvalidOptionError on uneven devices,
 * on servers alone, and on asynchronous jobs
 */
export function predictCluster(
  job: JobSpec,
  hardware: Hardware,
  options: PredictOptions,
): Prediction {
  return predictPlanned(planCluster(job, hardware, options), hardware);
}

/**
 * The prediction for a job as a user writes it. `hardware`: a kind of machine that the package has,
 * or a file, as of `osiris simulate-cluster --hardware`.
 * @throws as `predictCluster`; InputUnusableError if the file cannot be used
 */
export function simulateCluster(
  job: JobOptions,
  { hardware, ...options }: PredictOptions & { readonly hardware: string },
): Prediction {
  return predictCluster(resolveJob(job), readHardware(hardware), options);
}

/** Plans a job: in device memory, if it fits there; else with rows in host memory and on disk. */
export function planCluster(
  job: JobSpec,
  hardware: Hardware,
  options: PredictOptions,
): PlannedCluster {
  checkSynchronous(job, "a prediction of steps, which trainers without common steps do not have");
  const devices = devicesOf(hardware, options);
  checkServers(job, devices);
  const constants = constantsOf(hardware, devices);
  const ways = { ...options, devices, constants };
  const whole = planJob(job, { ...ways, relax: false });
  if (whole.isFeasible) return withFacts({ job, devices, options, ...whole });
  const cached = withCachesOf(job, hardware, devices);
  const found = planJob(cached, { ...ways, cache: true, relax: options.advise === true });
  if (found.isFeasible) return withFacts({ job: cached, devices, options, ...found });
  throw new ClusterTooSmallError(`${devices.hosts} hosts of ${hardware.name}`, found);
}

/** Refuses servers without a device that runs samples. */
function checkServers({ placement }: JobSpec, { hosts, perHost }: ClusterDevices): void {
  const all = hosts * perHost;
  if (placement.servers < all) return;
  const most = `at most ${all - 1}, as one of ${all} devices at least runs samples`;
  throw expected("placement.servers", most, placement.servers);
}

/** Adds the facts of the step graph, which follow from the job and its plan. */
export function withFacts(planned: Omit<PlannedCluster, "facts">): PlannedCluster {
  const { job, devices, plan, options, missing } = planned;
  return { job, devices, plan, options, missing, facts: stepFactsOfPlan(planned) };
}

function devicesOf({ name, host }: Hardware, { hosts, devices }: PredictOptions): ClusterDevices {
  const all = devices ?? hosts * host.devices;
  const perHost = all / hosts;
  if (Number.isInteger(perHost) && perHost >= 1 && perHost <= host.devices) {
    return { hosts, perHost };
  }
  const most = `1 to ${host.devices} for each of ${hosts} hosts of ${name}, the same number`;
  throw expected("devices", most, all);
}

/**
 * Simulates a job by its plan, on these machines.
 * @throws ClusterTooSmallError if its rows do not fit below the devices' memory
 */
export function predictPlanned(planned: PlannedCluster, hardware: Hardware): Prediction {
  const { job, devices, plan, options } = planned;
  const costs = costsOfCluster(job, plan, hardware, devices, options);
  const memory = memoryOfFullest(costs);
  checkBelow(`${devices.hosts} hosts of ${hardware.name}`, memory);
  // Devices of measured machines are this runtime's, which do one thing at a time.
  const streams = options.streams ?? hardware.constants === undefined;
  const steps = simulateSteps(planned.facts, costs, hardware, { streams });
  const samplesPerSecond = job.data.batchSize / steps.step;
  const failures = goodputOf(failuresOf(planned, hardware, costs));
  const { watts, pricePerHour } = hardware.host;
  const hours = (devices.hosts * 1e9) / (samplesPerSecond * failures.share) / 3600;
  return {
    hardware: hardware.name,
    hosts: devices.hosts,
    devices: devices.hosts * devices.perHost,
    batchSize: job.data.batchSize,
    samplesPerSecond,
    steps,
    bottleneck: bottleneckOf(steps),
    memory,
    ...(pricePerHour !== undefined && { price: hours * pricePerHour }),
    ...(watts !== undefined && { kilowattHours: (hours * watts) / 1000 }),
    goodput: failures.share,
    failures,
    missing: planned.missing,
  };
}

/** The planner checks the memory of devices; what lies below it is known from the costs. */
function checkBelow(hosts: string, memory: Prediction["memory"]): void {
  for (const level of ["host", "disk"] as const) {
    const { used, there } = memory[level];
    if (used <= there) continue;
    const what = level === "host" ? "memory below its devices" : "disk";
    const sentence = `A host needs ${used} bytes of ${what} for rows, and has ${there}`;
    const remedy = { sentence: `Give each host ${used} bytes of ${what}` };
    throw new ClusterTooSmallError(hosts, { unmet: [{ sentence }], relaxations: [remedy] });
  }
}

/** Bytes of the fullest device, and of the host whose devices have most, by level. */
function memoryOfFullest({ classes, perHost, memoryThere }: StepCostsOfCluster) {
  const ofHosts = new Map<number, { host: number; disk: number }>();
  let device = 0;
  for (const { ranks, memory } of classes) {
    device = Math.max(device, memory.device);
    for (const rank of ranks) {
      const host = Math.floor(rank / perHost);
      const before = ofHosts.get(host) ?? { host: 0, disk: 0 };
      ofHosts.set(host, { host: before.host + memory.host, disk: before.disk + memory.disk });
    }
  }
  const most = (level: "host" | "disk") =>
    [...ofHosts.values()].reduce((all, own) => Math.max(all, own[level]), 0);
  return {
    device: { used: device, there: memoryThere.device },
    host: { used: most("host"), there: perHost * memoryThere.host },
    disk: { used: most("disk"), there: perHost * memoryThere.disk },
  };
}

/**
 * A checkpoint copies the model to the hosts while training stands still, and is written meanwhile:
 * to the hosts' disks, or without these over the network that samples arrive by. A restore reads it
 * the same way.
 */
function failuresOf(
  { devices, options }: PlannedCluster,
  hardware: Hardware,
  costs: StepCostsOfCluster,
) {
  const { host, device } = hardware;
  const { hosts, perHost } = devices;
  const bytes = costs.classes.reduce(
    (most, { memory }) => Math.max(most, perHost * bytesOf(memory)),
    0,
  );
  const write = bytes / (host.disk?.bandwidth ?? host.ingestion);
  const save = costs.classes.reduce((most, { tasks, memory }) => {
    const { seconds = 0, shared = {} } = tasks.checkpoint ?? {};
    const held = Object.values(shared).reduce((sum, own) => sum + (own ?? 0), 0);
    return Math.max(most, seconds + held, memory.device / device.hostLink);
  }, 0);
  return {
    mtbf: clusterMtbf(hosts, host.mtbfHours),
    ...{ save, write },
    restore: (options.restartSeconds ?? usualRestart) + write,
    every: options.checkpointEvery,
  };
}

function bytesOf({ device, host, disk }: DeviceCosts["memory"]): number {
  return device + Math.max(host, disk);
}

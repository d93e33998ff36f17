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
import { fleetOf, withCachesOf } from "../hardware/constants-of.ts";
import { readCluster } from "../hardware/read-hardware.ts";
import { serverKind } from "../hardware/server-hosts.ts";
import type {
  ClusterDevices,
  DeviceCosts,
  Hardware,
  Prediction,
  StepCostsOfCluster,
} from "../model.ts";
import { bottleneckOf } from "./bottleneck.ts";
import { goodputOf } from "./goodput.ts";
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
  /** Whether the error of a job that does not fit suggests remedies, which takes longer. */
  readonly advise?: boolean | undefined;
}

/** A job with its plan for a cluster. */
export interface PlannedCluster {
  readonly job: JobSpec;
  readonly devices: ClusterDevices;
  readonly plan: Plan;
  readonly options: PredictOptions;
  /** The facts that determine the tasks of a step. */
  readonly facts: StepFacts;
  /** Conditions that a run of the job by this plan does not meet yet, a sentence each. */
  readonly missing: readonly string[];
}

/** Most devices of a cluster: a prediction of more would take hours. */
const devicesMax = 65_536;

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
 * The prediction for a job as a user writes it. `hardware`: the name of a kind of machine in the
 * package, or a file, as for `osiris simulate-cluster --hardware`; `serversHardware`: the kind of
 * the hosts of servers, if it differs.
 * @throws as `predictCluster`; InputUnusableError if the file cannot be used
 */
export function simulateCluster(
  job: JobOptions,
  {
    hardware,
    serversHardware,
    ...options
  }: PredictOptions & { readonly hardware: string; readonly serversHardware?: string },
): Prediction {
  return predictCluster(resolveJob(job), readCluster(hardware, serversHardware), options);
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
  const ways = { ...options, devices, ...fleetOf(hardware, devices, job.placement) };
  const whole = planJob(job, { ...ways, relax: false });
  if (whole.isFeasible) return withFacts({ job, devices, options, ...whole });
  const cached = withCachesOf(job, hardware, devices);
  const advice = { relax: options.advise === true, mayAddDevices: false };
  const found = planJob(cached, { ...ways, ...advice, cache: true });
  if (found.isFeasible) return withFacts({ job: cached, devices, options, ...found });
  throw new ClusterTooSmallError(hostsOf(devices, hardware), found);
}

function hostsOf({ hosts }: ClusterDevices, hardware: Hardware): string {
  return `${hosts} ${hosts === 1 ? "host" : "hosts"} of ${nameOf(hardware)}`;
}

/** Refuses a job whose devices would all be servers, as none would run samples. */
function checkServers({ placement }: JobSpec, { hosts, perHost }: ClusterDevices): void {
  const all = hosts * perHost;
  if (placement.servers < all) return;
  const most = `at most ${all - 1}, as one of ${all} devices at least runs samples`;
  throw expected("placement.servers", most, placement.servers);
}

/** Adds the facts of the step graph, which follow from the job and its plan. */
export function withFacts(planned: Omit<PlannedCluster, "facts">): PlannedCluster {
  const { job, devices, plan, options } = planned;
  const missing = [...planned.missing, ...missingSamples(planned)];
  return { job, devices, plan, options, missing, facts: stepFactsOfPlan(planned) };
}

/** The sentence on devices that a small batch leaves idle, if any. */
function missingSamples({ job, devices }: Pick<PlannedCluster, "job" | "devices">): string[] {
  const { batchSize } = job.data;
  const trainers = devices.hosts * devices.perHost - job.placement.servers;
  if (batchSize >= trainers) return [];
  return [
    `A batch of ${batchSize} has no sample for ${trainers - batchSize} of ${trainers} devices: ` +
      "enlarge `data.batchSize`",
  ];
}

function devicesOf(hardware: Hardware, { hosts, devices }: PredictOptions): ClusterDevices {
  const { host } = hardware;
  const all = devices ?? hosts * host.devices;
  const perHost = all / hosts;
  if (all > devicesMax) throw expected("devices", `at most ${devicesMax} of all hosts`, all);
  if (Number.isInteger(perHost) && perHost >= 1 && perHost <= host.devices) {
    return { hosts, perHost };
  }
  const each = hostsOf({ hosts, perHost }, hardware);
  throw expected("devices", `1 to ${host.devices} for each of ${each}, the same number`, all);
}

/**
 * Simulates a job by its plan, on these machines.
 * @throws ClusterTooSmallError if its rows do not fit below the devices' memory
 */
export function predictPlanned(planned: PlannedCluster, hardware: Hardware): Prediction {
  const { job, devices, plan, options } = planned;
  const costs = costsOfCluster(job, plan, hardware, devices, options);
  const memory = memoryOfFullest(costs);
  checkBelow(hostsOf(devices, hardware), memory);
  // Devices of measured machines run this runtime, which runs one task at a time.
  const streams = options.streams ?? hardware.constants === undefined;
  const steps = simulateSteps(planned.facts, costs, hardware, { streams });
  const samplesPerSecond = job.data.batchSize / steps.step;
  const failures = goodputOf(failuresOf(planned, hardware, costs));
  const [watts, pricePerHour] = (["watts", "pricePerHour"] as const).map((of) =>
    sumOverHosts(hardware, costs, (host) => host[of]),
  );
  const hours = 1e9 / (samplesPerSecond * failures.share) / 3600;
  const isTrained = failures.share > 0;
  return {
    hardware: nameOf(hardware),
    hosts: devices.hosts,
    devices: devices.hosts * devices.perHost,
    batchSize: job.data.batchSize,
    samplesPerSecond,
    steps,
    bottleneck: bottleneckOf(steps),
    memory,
    ...(isTrained && pricePerHour !== undefined && { price: hours * pricePerHour }),
    ...(isTrained && watts !== undefined && { kilowattHours: (hours * watts) / 1000 }),
    goodput: failures.share,
    failures,
    missing: planned.missing,
  };
}

function nameOf({ name, servers }: Hardware): string {
  return servers === undefined ? name : `${name} with servers of ${servers.name}`;
}

/** The sum of a figure over all hosts; undefined if one kind of host lacks the figure. */
function sumOverHosts(
  { host, servers }: Hardware,
  { hosts, serverHosts }: Pick<StepCostsOfCluster, "hosts" | "serverHosts">,
  figureOf: (host: Hardware["host"]) => number | undefined,
): number | undefined {
  const ofHost = figureOf(host);
  const ofServer = serverHosts === 0 || servers === undefined ? 0 : figureOf(servers.host);
  if (ofHost === undefined || ofServer === undefined) return undefined;
  return (hosts - serverHosts) * ofHost + serverHosts * ofServer;
}

/** Checks the memory below devices, by the costs; the planner has checked that of the devices. */
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

/** Bytes of the fullest device, and of the fullest host, by level. */
function memoryOfFullest({ classes, perHost }: StepCostsOfCluster): Prediction["memory"] {
  const none = { used: 0, there: 0 };
  const fullest = { device: none, host: none, disk: none };
  const ofHosts = new Map<number, { readonly host: number; readonly disk: number }>();
  const compare = (level: keyof typeof fullest, used: number, there: number) => {
    const before = fullest[level];
    if (used * before.there >= before.used * there) fullest[level] = { used, there };
  };
  for (const { ranks, memory, memoryThere } of classes) {
    compare("device", memory.device, memoryThere.device);
    for (const rank of ranks) {
      const host = Math.floor(rank / perHost);
      const before = ofHosts.get(host) ?? { host: 0, disk: 0 };
      const sums = { host: before.host + memory.host, disk: before.disk + memory.disk };
      ofHosts.set(host, sums);
      for (const level of ["host", "disk"] as const) {
        compare(level, sums[level], perHost * memoryThere[level]);
      }
    }
  }
  return fullest;
}

/**
 * A checkpoint stops training while it copies the model to the hosts' memory. It is written while
 * training goes on: to the hosts' disks, or without disks over the network by which samples arrive.
 * A restore reads it the same way.
 */
function failuresOf(
  { devices, options }: PlannedCluster,
  hardware: Hardware,
  { classes, serverHosts }: StepCostsOfCluster,
) {
  const { hosts, perHost } = devices;
  const servers = serverKind(hardware, devices);
  let [write, save] = [0, 0];
  for (const { ranks, tasks, memory } of classes) {
    const isServer = (ranks[0] ?? 0) >= (hosts - serverHosts) * perHost;
    const { host, device } = isServer ? servers : hardware;
    const { seconds = 0, shared = {} } = tasks.checkpoint ?? {};
    const held = Object.values(shared).reduce((sum, own) => sum + (own ?? 0), 0);
    save = Math.max(save, seconds + held, memory.device / device.hostLink);
    const bandwidth = host.disk?.bandwidth ?? host.ingestion;
    write = Math.max(write, (perHost * bytesOf(memory)) / bandwidth);
  }
  const rates = sumOverHosts(
    hardware,
    { hosts, serverHosts },
    ({ mtbfHours }) => 1 / (mtbfHours ?? Infinity),
  );
  return {
    mtbf: 3600 / (rates ?? 0),
    ...{ save, write },
    restore: (options.restartSeconds ?? usualRestart) + write,
    every: options.checkpointEvery,
  };
}

function bytesOf({ device, host, disk }: DeviceCosts["memory"]): number {
  return device + Math.max(host, disk);
}

// Finds the changes with the largest gains by simulating each of them: every resource of the
// machines is made twice as fast, and the job is changed in the ways that its user may choose. The
// plan stays the same unless the devices change, so that a gain is a lower bound: a plan for the
// changed machines may gain more.

import {
  ClusterTooSmallError,
  deviceCount,
  type JobSpec,
  type MachineConstants,
} from "../../../internal.ts";
import type { Hardware, Prediction } from "../model.ts";
import type { TaskCosts } from "../tasks/task-costs.ts";
import { type PlannedCluster, planCluster, predictPlanned, withFacts } from "./predict-cluster.ts";

/** A change of the machines, or of the job or the number of hosts. */
export interface Change {
  readonly name: string;
  readonly of: "hardware" | "job" | "hosts";
  readonly hardware?: Hardware;
  readonly job?: JobSpec;
  readonly hosts?: number;
}

export interface MeasuredChange extends Pick<Change, "name" | "of"> {
  /** Samples per second with the change, relative to those without, less 1. */
  readonly gain: number;
}

/**
 * The changes of a cluster to try; with two kinds of machines, the changes of each. Servers run no
 * samples, so that faster layers and readers change nothing there.
 */
export function changesOf({ job, devices }: PlannedCluster, hardware: Hardware): Change[] {
  const { hosts, perHost } = devices;
  const isAlone = deviceCount(devices) === 1;
  const { servers } = hardware;
  const trainers = hosts - (servers === undefined ? 0 : job.placement.servers / perHost);
  const more = Math.round((job.data.batchSize / trainers) * (trainers + 1));
  const ofKind = servers === undefined ? "" : ` of ${hardware.name}`;
  const machines = kindChanges(hardware, (kind) => ({ ...kind, servers }), ofKind);
  const ofServers =
    servers === undefined
      ? []
      : kindChanges(servers, (kind) => ({ ...hardware, servers: kind }), ` of ${servers.name}`);
  return [
    ...[...machines, ...ofServers.filter(({ name }) => !/^(compute|ingestion)/.test(name))]
      .filter(({ name }) => !(hosts === 1 && name.startsWith("scale-out")))
      .filter(({ name }) => !(perHost === 1 && name.startsWith("scale-up"))),
    ...(hardware.constants === undefined
      ? []
      : [
          {
            name: "one more reader",
            of: "job",
            job: { ...job, readers: job.readers + 1 },
          } as const,
        ]),
    { name: "twice the batch", of: "job", job: withBatch(job, 2 * job.data.batchSize) },
    // Measured tasks have costs of float32 rows alone.
    ...(rowsAreWide(job) && hardware.tasks === undefined
      ? [{ name: "float16 rows", of: "job", job: withHalfRows(job) } as const]
      : []),
    ...(isAlone || job.exchange.forward !== "float32"
      ? []
      : [{ name: "bfloat16 exchange", of: "job", job: withHalfExchange(job) } as const]),
    { name: `one more host${ofKind}`, of: "hosts", hosts: hosts + 1, job: withBatch(job, more) },
    ...(servers === undefined
      ? []
      : [
          {
            ...({ name: `one more host of ${servers.name}`, of: "hosts" } as const),
            ...{ hosts: hosts + 1, job: withServers(job, perHost) },
          },
        ]),
  ];
}

/** Measures the changes; the largest gain first. A change that does not fit is left out. */
export function* measureChanges(
  planned: PlannedCluster,
  hardware: Hardware,
  now: Prediction,
): Generator<string, MeasuredChange[]> {
  const measured: MeasuredChange[] = [];
  for (const change of changesOf(planned, hardware)) {
    yield change.name;
    const then = predictionWith(planned, hardware, change);
    if (then === undefined) continue;
    const gain = then.samplesPerSecond / now.samplesPerSecond - 1;
    measured.push({ name: change.name, of: change.of, gain });
  }
  return measured.sort((a, b) => b.gain - a.gain);
}

/** The prediction with a change; undefined: it does not fit. */
function predictionWith(planned: PlannedCluster, hardware: Hardware, change: Change) {
  const { job = planned.job, hosts } = change;
  const { perHost } = planned.devices;
  try {
    if (hosts !== undefined) {
      const options = { ...planned.options, hosts, devices: hosts * perHost };
      return predictPlanned(planCluster(job, hardware, options), hardware);
    }
    const same = change.job === undefined ? planned : withFacts({ ...planned, job });
    const found = predictPlanned(same, change.hardware ?? hardware);
    const { used, there } = found.memory.device;
    return change.job !== undefined && used > there ? undefined : found;
  } catch (error) {
    if (error instanceof ClusterTooSmallError) return undefined;
    throw error;
  }
}

const twice = 2;

/** Each resource of a kind of machines, twice as fast. `inCluster`: the cluster with that kind. */
function kindChanges(
  hardware: Hardware,
  inCluster: (kind: Hardware) => Hardware,
  ofKind: string,
): Change[] {
  const { host, device, scaleUp, scaleOut, constants, tasks } = hardware;
  const of = "hardware" as const;
  const changed = (name: string, change: Partial<Hardware>): Change => {
    return { name: name + ofKind, of, hardware: inCluster({ ...hardware, ...change }) };
  };
  const flops = Object.fromEntries(
    Object.entries(device.flops).map(([precision, peak]) => [precision, twice * (peak ?? 0)]),
  );
  const { bandwidth, lookups } = device.memory;
  const memory = { ...device.memory, bandwidth: twice * bandwidth, lookups: twice * lookups };
  const faster = <Part extends { readonly bandwidth: number }>(part: Part): Part => {
    return { ...part, bandwidth: twice * part.bandwidth };
  };
  const { disk, cores } = host;
  const withHostLink = { device: { ...device, hostLink: twice * device.hostLink } };
  return [
    changed("compute x2", {
      device: { ...device, flops },
      constants: constants && withCompute(constants),
      tasks: tasks && withUnits(tasks, computeUnits),
    }),
    changed("device memory x2", {
      device: { ...device, memory, idSort: device.idSort / twice },
      constants: constants && withMemory(constants),
      tasks: tasks && withUnits(tasks, memoryUnits),
    }),
    ...(Number.isFinite(scaleUp.bandwidth) && !scaleUp.isHostLink
      ? [changed("scale-up x2", { scaleUp: faster(scaleUp) })]
      : []),
    changed("scale-out x2", { scaleOut: faster(scaleOut) }),
    changed("scale-out latency / 2", {
      scaleOut: { ...scaleOut, latency: scaleOut.latency / twice },
    }),
    changed("host link x2", {
      ...withHostLink,
      ...(scaleUp.isHostLink && { scaleUp: faster(scaleUp) }),
    }),
    changed("host memory x2", { host: { ...host, memory: faster(host.memory) } }),
    ...(disk ? [changed("disk x2", { host: { ...host, disk: faster(disk) } })] : []),
    changed("ingestion x2", { host: { ...host, ingestion: twice * host.ingestion } }),
    ...(cores === undefined
      ? []
      : [changed("cores x2", { host: { ...host, cores: twice * cores } })]),
  ];
}

/** Costs of a measured machine that depend on arithmetic, and costs that depend on memory. */
const computeCosts = ["activation", "product", "layer", "parameter", "sliceParameter"] as const;
const memoryCosts = ["vector", "element", "id", "sliceRow"] as const;

function withCompute(constants: MachineConstants): MachineConstants {
  const { denseFlops, steps } = constants;
  return { ...constants, denseFlops: twice * denseFlops, steps: halved(steps, computeCosts) };
}

function withMemory(constants: MachineConstants): MachineConstants {
  const { memoryBandwidth, insideHost, rows, steps } = constants;
  const links = Object.entries(insideHost).map(([name, rate]) => [name, twice * rate]);
  return {
    ...constants,
    memoryBandwidth: twice * memoryBandwidth,
    insideHost: Object.fromEntries(links),
    rows: rows.map(({ columns, ...costs }) => ({ columns, ...scaled(costs, 1 / twice) })),
    steps: halved(steps, memoryCosts),
  };
}

/** Units of work (task-units.ts) that become faster with a faster processor; others need memory. */
const computeUnits: ReadonlySet<string> = new Set([
  ...["layer", "block", "parameter", "product", "activation", "own", "shared", "small"],
  ...["half", "scaled"],
]);
const memoryUnits: ReadonlySet<string> = new Set([
  ...["bag", "id", "idColumn", "row", "rowColumn", "element", "moved"],
  ...["cached", "missed", "missedColumn", "read"],
]);

/** The measured tasks, with the costs of these units halved. */
function withUnits(all: readonly TaskCosts[], units: ReadonlySet<string>): TaskCosts[] {
  return all.map(({ devices, tasks }) => {
    const faster = Object.entries(tasks).map(([task, costs]) => {
      const changed = Object.entries(costs).map(([unit, cost]) => {
        return [unit, units.has(unit) ? cost / twice : cost] as const;
      });
      return [task, Object.fromEntries(changed)] as const;
    });
    return { devices, tasks: Object.fromEntries(faster) };
  });
}

function halved<Steps extends MachineConstants["steps"]>(
  steps: Steps,
  names: readonly (keyof Steps[number])[],
): Steps {
  return steps.map((own) => {
    const costs = names.map((name) => [name, own[name as keyof typeof own] / twice]);
    return { ...own, ...Object.fromEntries(costs) };
  }) as Steps;
}

function scaled<Costs extends Readonly<Record<string, number>>>(costs: Costs, by: number): Costs {
  return Object.fromEntries(
    Object.entries(costs).map(([name, cost]) => [name, by * cost]),
  ) as Costs;
}

function withBatch(job: JobSpec, batchSize: number): JobSpec {
  return { ...job, data: { ...job.data, batchSize } };
}

function withServers(job: JobSpec, more: number): JobSpec {
  const { placement } = job;
  return { ...job, placement: { ...placement, servers: placement.servers + more } };
}

function rowsAreWide({ model }: JobSpec): boolean {
  return model.tables.some(({ precision }) => precision === "float32");
}

function withHalfRows(job: JobSpec): JobSpec {
  const tables = job.model.tables.map((table) => {
    return table.precision === "float32" ? { ...table, precision: "float16" as const } : table;
  });
  return { ...job, model: { ...job.model, tables } };
}

function withHalfExchange(job: JobSpec): JobSpec {
  const exchange = { ...job.exchange, forward: "bfloat16", backward: "bfloat16" } as const;
  return { ...job, exchange };
}

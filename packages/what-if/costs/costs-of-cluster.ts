// The costs of a step of a job on a cluster: seconds of each task on each device, bytes by channel,
// and memory, all from a plan, so that the imbalance of devices is the plan's. These costs have no
// waits: the engine decides what overlaps. A table costs as many additions as it has shards, and
// copied tables are counted once for all devices.

import {
  type Plan,
  readSeconds,
  reserveOf,
  sizeOf,
  stepCostsIn,
  type WorkloadOptions,
} from "../../../internal.ts";
import { memoryOf } from "../hardware/constants-of.ts";
import type { ClusterDevices, Hardware } from "../hardware/hardware.ts";
import type { ChannelBytes, DeviceCosts, MemoryBytes, StepCostsOfCluster } from "../model.ts";
import { type CostedCluster, type CostedJob, costedCluster, seenBy } from "./costed-job.ts";
import { denseSecondsOf, type Precision } from "./dense-costs.ts";
import { add } from "./flows.ts";
import { createLedger, type Ledger } from "./ledger.ts";
import { measuredTasksOf } from "./measured-tasks.ts";
import { addShards } from "./shard-costs.ts";
import { type ChannelFlow, type Traffic, trafficOfDevices } from "./traffic-of-devices.ts";

export interface CostOptions extends WorkloadOptions {
  /** Format of the dense layers' products. @default float32, which this runtime computes in */
  readonly precision?: Precision | undefined;
}

/**
 * The costs of a step of `job` by `plan`. Devices with equal costs are one class.
 * @throws RangeError if the plan is for other devices, InvalidOptionError if the hardware has no
 * peak for the precision
 */
export function costsOfCluster(
  job: CostedJob,
  plan: Plan,
  hardware: Hardware,
  devices: ClusterDevices,
  { precision = "float32", ...options }: CostOptions = {},
): StepCostsOfCluster {
  const { hosts, perHost } = devices;
  if (plan.devices.hosts !== hosts || plan.devices.perHost !== perHost) {
    const planned = `${plan.devices.hosts} hosts of ${plan.devices.perHost}`;
    throw new RangeError(`The plan is for ${planned} devices, not ${hosts} of ${perHost}`);
  }
  const cluster = costedCluster(job, plan, { hardware, devices }, options);
  const ledger = createLedger(hosts * perHost);
  addShards(cluster, ledger);
  const traffic = trafficOfDevices(cluster);
  addSamples(cluster, ledger, traffic);
  addDense(cluster, ledger, precision);
  return {
    ...{ hosts, perHost, classes: classesOf(cluster, ledger, traffic) },
    ...{ reading: readingOf(cluster), serverHosts: cluster.servers?.hosts ?? 0 },
  };
}

/** Bytes of a sample as it arrives: features, labels, and the bags of every table. */
function sampleBytes({ graph, tables }: CostedCluster): number {
  const dense = graph.dense === undefined ? 0 : sizeOf(graph.dense);
  const labels = new Set(graph.objectives.map(({ target }) => target)).size;
  const bags = tables.reduce((sum, { lookups, idWords, poolingFactor }) => {
    return sum + lookups + idWords * poolingFactor;
  }, 0);
  return 4 * (dense + labels + bags);
}

/** Adds what a device does for its own samples: their arrival, ids and vectors. */
function addSamples(cluster: CostedCluster, ledger: Ledger, traffic: Traffic): void {
  const { samples, tables } = cluster;
  const ids = tables.reduce((sum, { poolingFactor }) => sum + poolingFactor, 0);
  const bytes = sampleBytes(cluster);
  // Half of the vectors' bytes each way.
  const vectors = tables.reduce((sum, { lookups }) => sum + lookups / 2, 0);
  const elements = tables.reduce((sum, { lookups, dim }) => sum + (lookups * dim) / 2, 0);
  const bytesOf = (of: keyof ChannelFlow, rank: number, channels: readonly string[]) =>
    [...traffic].reduce((sum, [channel, flow]) => {
      const { inside, across } = flow[of];
      const bytes = (inside[rank] ?? 0) + (across[rank] ?? 0);
      return channels.includes(channel) ? sum + bytes : sum;
    }, 0);
  for (const [rank, samplesOfDevice] of samples.entries()) {
    const { hardware, setting } = seenBy(cluster, rank);
    const { device, constants } = hardware;
    const { step, vector, element, id } = stepCostsIn(setting);
    const ofVectors = vectors * vector + elements * element;
    // Devices of a measured machine copy vectors at the costs of their elements.
    const copied = constants === undefined ? 2 / device.memory.lookups : 0;
    ledger.add("batch", rank, { seconds: step });
    if (constants === undefined) {
      ledger.add("batch", rank, { hostLink: (samplesOfDevice * bytes) / device.hostLink });
    }
    ledger.add("ids", rank, { seconds: samplesOfDevice * id * ids });
    const read = copied * bytesOf("received", rank, ["pooled", "stalePooled", "rows", "staleRows"]);
    ledger.add("receiveReads", rank, { seconds: samplesOfDevice * ofVectors + read });
    const sent = copied * bytesOf("sent", rank, ["dPooled", "dRows"]);
    ledger.add("sendGradients", rank, { seconds: samplesOfDevice * ofVectors + sent });
  }
}

function addDense(cluster: CostedCluster, ledger: Ledger, precision: Precision): void {
  const secondsOn = (of: CostedCluster) => denseSecondsOf(of, precision);
  const [ofDevice, ofServers] = [secondsOn(cluster), secondsOn(cluster.servers?.own ?? cluster)];
  for (const [rank, samples] of cluster.samples.entries()) {
    const secondsOf = seenBy(cluster, rank) === cluster ? ofDevice : ofServers;
    for (const [task, seconds] of Object.entries(secondsOf(samples))) {
      ledger.add(task as keyof ReturnType<typeof secondsOf>, rank, { seconds });
    }
  }
}

/** Reading: by the readers of a measured machine; on others, limited by `host.ingestion` alone. */
function readingOf(cluster: CostedCluster): StepCostsOfCluster["reading"] {
  const { devices, hardware, setting, samples } = cluster;
  const { readers } = setting.workload;
  if (hardware.constants !== undefined) return { seconds: readers * readSeconds(setting), readers };
  const ofHosts = new Float64Array(devices.hosts);
  for (const [rank, samplesOfDevice] of samples.entries())
    add(ofHosts, Math.floor(rank / devices.perHost), samplesOfDevice);
  const bytes = Math.max(...ofHosts) * sampleBytes(cluster);
  return { seconds: bytes / hardware.host.ingestion, readers: 1 };
}

/** Classes of devices with equal costs, compared by every number. */
function classesOf(cluster: CostedCluster, ledger: Ledger, traffic: Traffic): DeviceCosts[] {
  const classes = new Map<string, DeviceCosts & { readonly ranks: number[] }>();
  const [ofDevices, ofServers] = [cluster, cluster.servers?.own ?? cluster].map((of) => {
    const { memoryBytes, hostBytes, diskBytes } = memoryOf(of.hardware, of.devices);
    const tasksOf = measuredTasksOf(of, ledger) ?? ledger.tasksOf;
    const memoryThere = { device: memoryBytes, host: hostBytes, disk: diskBytes };
    return { tasksOf, reserve: reserveOf(of.setting), memoryThere };
  });
  for (const rank of cluster.samples.keys()) {
    const kind = seenBy(cluster, rank) === cluster ? ofDevices : ofServers;
    if (kind === undefined) continue;
    const { tasksOf, reserve, memoryThere } = kind;
    const { device, host, disk } = ledger.memoryOf(rank);
    const memory: MemoryBytes = { device: device + reserve, host, disk };
    const tasks = tasksOf(rank);
    const [sent, received] = [bytesAt(traffic, "sent", rank), bytesAt(traffic, "received", rank)];
    const costs = { tasks, sent, received, memory, memoryThere };
    const key = JSON.stringify(costs);
    const known = classes.get(key);
    if (known === undefined) classes.set(key, { ranks: [rank], ...costs });
    else known.ranks.push(rank);
  }
  return [...classes.values()];
}

function bytesAt(traffic: Traffic, of: keyof ChannelFlow, rank: number): DeviceCosts["sent"] {
  const channels = [...traffic].map(([channel, flow]): [string, ChannelBytes] => {
    const { inside, across } = flow[of];
    return [channel, { inside: inside[rank] ?? 0, across: across[rank] ?? 0 }];
  });
  return Object.fromEntries(channels.filter(([, { inside, across }]) => inside + across > 0));
}

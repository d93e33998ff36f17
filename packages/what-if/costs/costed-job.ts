// A job on a cluster as its costs need it: the planner's view of its tables, the parts that devices
// hold of them, and the samples of each device.

import {
  aheadTables,
  deviceCount,
  distinctIn,
  exactExchange,
  featuresOf,
  type Graph,
  graphOf,
  type JobSpec,
  type Lookup,
  lookupsOf,
  type Plan,
  type PlannableJob,
  type PlannedTable,
  type Setting,
  type Shard,
  serversOf,
  shapesOf,
  shardsOf,
  sliceRunsOf,
  sliceStart,
  slicesBeside,
  tableOf,
  type Workload,
  type WorkloadOptions,
  weightedOf,
  withCurves,
  withServers,
  withWireBytes,
  workloadOf,
} from "../../../internal.ts";
import { constantsOf } from "../hardware/constants-of.ts";
import type { ClusterDevices, Hardware } from "../hardware/hardware.ts";
import { serverHosts, serverKind } from "../hardware/server-hosts.ts";

/** The part of a job that decides the costs of its steps. */
export type CostedJob = PlannableJob & {
  readonly pipeline: Pick<JobSpec["pipeline"], "ahead">;
  readonly checkpoint: Pick<JobSpec["checkpoint"], "everySteps">;
};

/** A table, by its index in the job. */
export interface CostedTable extends PlannedTable {
  readonly lookups: number;
  /** Whether devices send its distinct rows instead of vectors. */
  readonly isDistinct: boolean;
  /** Whether it is read before the previous step's update. */
  readonly isEarly: boolean;
  /** Share of its bags that are sent again after the update. */
  readonly deferred: number;
  /** Words of an id on the wire. */
  readonly idWords: number;
}

export interface CostedCluster {
  readonly job: CostedJob;
  readonly plan: Plan;
  readonly hardware: Hardware;
  readonly devices: ClusterDevices;
  readonly setting: Setting;
  readonly graph: Graph;
  readonly tables: readonly CostedTable[];
  readonly shards: readonly Shard[];
  /** Samples and slices of each device. */
  readonly samples: readonly number[];
  readonly slices: readonly number[];
  /** The last hosts, if they are servers of another kind; `own`: the cluster with that kind. */
  readonly servers?: { readonly hosts: number; readonly own: CostedCluster } | undefined;
}

/** The cluster with the kind of machine of this device, and the planner's constants of the kind. */
export function seenBy(cluster: CostedCluster, rank: number | "all"): CostedCluster {
  const { servers, devices } = cluster;
  if (servers === undefined || rank === "all") return cluster;
  return rank < (devices.hosts - servers.hosts) * devices.perHost ? cluster : servers.own;
}

export interface CostedMachines {
  readonly hardware: Hardware;
  readonly devices: ClusterDevices;
}

/** The job on a cluster. A batch has at least as many slices as devices that run samples. */
export function costedCluster(
  job: CostedJob,
  plan: Plan,
  { hardware, devices }: CostedMachines,
  options: WorkloadOptions = {},
): CostedCluster {
  const exchange = job.exchange ?? exactExchange;
  const isCached = plan.shards.some(({ tier }) => tier === "cached");
  const workload = workloadOf(job, { cache: isCached, ...options });
  const settingOf = (kind: Hardware) => {
    const constants = withWireBytes(constantsOf(kind, devices), exchange);
    return withServers(withCurves({ workload, devices, constants }), job.placement);
  };
  const setting = settingOf(hardware);
  const W = deviceCount(devices);
  const servers = serversOf(job.placement, W);
  const count = Math.max(W - servers, job.slices ?? W);
  const runs = sliceRunsOf(count, W, slicesBeside(count, W, servers));
  const startOf = (slice: number) => sliceStart(slice, count, workload.batchSize);
  const lookups = lookupsOf(featuresOf(job.model));
  const isDistinct = distinctIn(exchange, lookups, W);
  const isQuantised = exchange.forward !== "float32";
  const shards = shardsOf(job.model.tables, plan, (spec, i) => isQuantised || isDistinct(spec, i));
  const early = earlyTables({ job, workload, shards, lookups, isDistinct }, devices);
  const weighted = weightedTables(job, lookups);
  const cluster: CostedCluster = {
    ...{ job, plan, hardware, devices, shards },
    setting,
    graph: graphOf(job.model),
    tables: job.model.tables.map((spec, i): CostedTable => {
      const planned = tableOf(setting.workload.tables, i);
      return {
        ...planned,
        lookups: planned.lookups ?? 1,
        isDistinct: isDistinct(spec, i),
        idWords: 1 + (spec.dynamic === undefined ? 0 : 1) + (weighted.has(i) ? 1 : 0),
        ...(early[i] ?? { isEarly: false, deferred: 0 }),
      };
    }),
    samples: runs.map((run) => startOf(run.firstSlice + run.slices) - startOf(run.firstSlice)),
    slices: runs.map((run) => run.slices),
  };
  const hosts = serverHosts(hardware, devices, job.placement);
  if (hosts === 0) return cluster;
  const kind = serverKind(hardware, devices);
  return {
    ...cluster,
    servers: { hosts, own: { ...cluster, hardware: kind, setting: settingOf(kind) } },
  };
}

export function hostsOf({ hosts, perHost }: ClusterDevices): number[] {
  return Array.from({ length: hosts * perHost }, (_, rank) => Math.floor(rank / perHost));
}

/** The tables with ids of a weight. */
function weightedTables({ data, model }: CostedJob, lookups: readonly Lookup[]): Set<number> {
  const weighted = weightedOf(data, shapesOf(model));
  return new Set(lookups.flatMap(({ feature, table }) => (weighted[feature] ? table : [])));
}

interface EarlyTables extends Pick<CostedCluster, "job" | "shards"> {
  readonly workload: Workload;
  readonly lookups: readonly Lookup[];
  readonly isDistinct: ReturnType<typeof distinctIn>;
}

/** The tables that are read before the previous step's update. */
function earlyTables(
  { job, workload, shards, lookups, isDistinct }: EarlyTables,
  { hosts, perHost }: ClusterDevices,
): Pick<CostedTable, "isEarly" | "deferred">[] {
  const { tables: planned, batchSize } = workload;
  const meanOf = ({ poolingFactor, lookups: bags = 1 }: PlannedTable) => poolingFactor / bags;
  const bagSizes = lookups.map(({ table }) => {
    const mean = meanOf(tableOf(planned, table));
    return { mean, most: mean };
  });
  const isAhead = aheadTables({
    ...{ ahead: job.pipeline.ahead, batchSize, tables: job.model.tables, lookups, bagSizes },
    ...{ shards, hostOf: hostsOf({ hosts, perHost }) },
    isDistinct: (table) => isDistinct(tableOf(job.model.tables, table), table),
  });
  return job.model.tables.map(({ staleness, rows }, i) => {
    const counted = tableOf(planned, i);
    // As `aheadTables` counts: the rows of a mean bag that the batch before has, too.
    const shared = Math.min(1, (meanOf(counted) * batchSize * counted.poolingFactor) / rows);
    const isEarly = staleness > 0 || isAhead[i] === true;
    return { isEarly, deferred: isAhead[i] === true ? shared : 0 };
  });
}

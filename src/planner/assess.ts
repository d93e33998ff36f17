// Assesses a plan: load and memory of each device, bytes sent, and the time of a step by stage.
// Everything is computed from the plan alone, so a plan from a file is judged like a new one.

import { allReduceSeconds, gradientShare } from "./cost/all-reduce.ts";
import { belowBytesOf } from "./cost/constants.ts";
import {
  costOf,
  loadOf,
  memoryOf,
  noSeconds,
  placeBytesOf,
  reserveOf,
  type Setting,
  type Stage,
  type StageSeconds,
  stages,
  stepCostsIn,
} from "./cost/cost.ts";
import { measuredSlices } from "./cost/step-costs.ts";
import { denseTraffic, sharersOf, type Traffic, trafficOf } from "./cost/traffic.ts";
import {
  deviceCount,
  type PlacedShard,
  type Plan,
  type PlannedTable,
  tableQuanta,
  tileColumns,
  tileRows,
  trainersOf,
} from "./shards.ts";

export interface DeviceAssessment {
  /** Seconds that count in the score. */
  readonly cost: number;
  /** Seconds of all its work in a step, without waits. */
  readonly busy: number;
  /** Bytes of shards and of the reserve. */
  readonly bytes: number;
  /** Bytes of all rows of its shards behind caches. */
  readonly below: number;
  readonly shards: number;
}

export interface Assessment {
  readonly devices: readonly DeviceAssessment[];
  /** Seconds of the slowest device: the score of a plan, as in TorchRec's planner. */
  readonly score: number;
  /** Bytes on each host of the rows below its devices' caches, where these are counted. */
  readonly hostBytes: readonly number[];
  /** Bytes of memory that the fullest device, or host, lacks. 0: the plan fits. */
  readonly lacksBytes: number;
  /** Bytes of one step, over all devices. */
  readonly traffic: Traffic & { readonly dense: number };
  /** Seconds of each stage on its slowest device, as all devices wait for it. */
  readonly stages: StageSeconds;
  /** Seconds of one step, stage after stage. */
  readonly step: number;
}

/** The stages in which a device itself works on its shards. */
const workStages = ["prefetch", "lookup", "update", "overhead"] as const;

/** Assesses `plan` in this setting. The plan must cover the tables (`checkCover`). */
export function assessPlan(setting: Setting, plan: Plan): Assessment {
  const { workload, constants } = setting;
  const W = deviceCount(plan.devices);
  const reserve = reserveOf(setting);
  const devices = Array.from({ length: W }, (_, rank) => {
    const { rowSpeed: speed } = setting.fleet?.[rank] ?? { rowSpeed: 1 };
    return { cost: 0, bytes: reserve, below: 0, shards: 0, seconds: { ...noSeconds }, speed };
  });
  const tables = new Map(workload.tables.map((table) => [table.name, table]));
  const { all: dense, acrossHosts } = denseTraffic(setting);
  const onHosts = new Array<number>(plan.devices.hosts).fill(0);
  const traffic = { input: 0, forward: 0, backward: 0, dense, acrossHosts };
  const sharers = sharersOf(plan);
  for (const shard of plan.shards) {
    const table = tables.get(shard.table);
    if (table === undefined) continue;
    const load = loadOf(setting, table, shard);
    const own = costOf(setting, table, shard.scheme, shard.tier, shard, load);
    const { cost, work, bytes, seconds, hostBytes } = own;
    if (shard.device !== "all") {
      const host = Math.floor(shard.device / plan.devices.perHost);
      onHosts[host] = (onHosts[host] ?? 0) + hostBytes;
    }
    for (const device of shard.device === "all"
      ? devices
      : devices.slice(shard.device, shard.device + 1)) {
      const slower = 1 / device.speed - 1;
      device.cost += cost + slower * work;
      device.bytes += bytes;
      device.below += belowOf(setting, table, shard);
      device.shards++;
      for (const stage of stages) device.seconds[stage] += seconds[stage];
      for (const stage of workStages) device.seconds[stage] += slower * seconds[stage];
    }
    const sent = trafficOf(setting, table, shard, sharers(shard));
    traffic.input += sent.input;
    traffic.forward += sent.forward;
    traffic.backward += sent.backward;
    traffic.acrossHosts += sent.acrossHosts;
  }
  const slowest = (stage: Stage) => {
    return devices.reduce((most, { seconds }) => Math.max(most, seconds[stage]), 0);
  };
  const times: StageSeconds = {
    ...noSeconds,
    ...Object.fromEntries(stages.map((stage) => [stage, slowest(stage)])),
  };
  const gradient = 4 * workload.denseParameters * gradientShare(workload, plan.devices);
  const sum = allReduceSeconds(plan.devices, constants, gradient);
  const { denseSpeed } = stepCostsIn(setting);
  const speeds = setting.fleet?.reduce((all, own) => all + own.denseSpeed, 0) ?? W;
  const busy = {
    ...times,
    // A run deals the slices of a batch by the devices' speeds.
    dense: (workload.batchSize * workload.denseFlop) / speeds / (denseSpeed * constants.denseFlops),
    allReduce: slowest("allReduce") + sum,
    overhead: slowest("overhead") + denseOverhead(setting),
  };
  const alike = busy.dense + sum + denseOverhead(setting);
  const byStage = withReading(setting, busy);
  const below = belowBytesOf(constants) ?? Infinity;
  const lacks = [
    ...devices.map(({ bytes }, rank) => bytes - memoryOf(setting, rank)),
    ...onHosts.map((bytes) => bytes - below),
  ];
  return {
    devices: devices.map(({ seconds, speed: _, ...device }, rank) => {
      const own = stages.reduce((all, stage) => all + seconds[stage], 0);
      const isServer = setting.fleet?.[rank]?.denseSpeed === 0;
      return { ...device, busy: own + (isServer ? sum : alike) };
    }),
    score: devices.reduce((all, { cost }) => Math.max(all, cost), 0),
    hostBytes: onHosts,
    lacksBytes: lacks.reduce((all, own) => Math.max(all, own), 0),
    traffic,
    stages: byStage,
    step: Object.values(byStage).reduce((all, seconds) => all + seconds, 0),
  };
}

/** Bytes of the rows of a shard behind a cache. */
function belowOf(setting: Setting, table: PlannedTable, shard: PlacedShard): number {
  if (shard.tier !== "cached") return 0;
  return tileRows(table, shard) * placeBytesOf(setting, table, tileColumns(table, shard));
}

/**
 * Rounds of the exchange that a step waits for: vectors, their gradients, and the two of the
 * all-reduce. Ids are sent while the step before computes.
 */
const roundsOfStep = 4;

/** Seconds of a step on every device that do not depend on the placement of tables. */
function denseOverhead(setting: Setting): number {
  const { workload } = setting;
  const trainers = trainersOf(setting);
  const { step, activation, product, layer, parameter, ...others } = stepCostsIn(setting);
  const { denseActivations, denseOwnProducts, denseLayers, denseParameters, tables } = workload;
  const { vector, element, id, sliceParameter } = others;
  const rounds = roundsOfStep * setting.constants.hostRoundSeconds;
  const samples = workload.batchSize / trainers;
  const further = Math.max(0, (workload.slices ?? measuredSlices) - measuredSlices);
  const ofParameter = parameter + (sliceParameter * further) / trainers;
  const perSample = tables.reduce(
    (sum, { dim, lookups = 1, poolingFactor }) => {
      return sum + lookups * (vector + element * dim) + id * poolingFactor;
    },
    activation * denseActivations + product * denseOwnProducts,
  );
  const fixed = rounds + step + layer * denseLayers;
  return fixed + samples * perSample + ofParameter * denseParameters;
}

/**
 * Seconds of reading per batch: the readers of a host work in parallel, each on the next batch in
 * turn.
 */
export function readSeconds(setting: Setting): number {
  const { batchSize, tables, readers } = setting.workload;
  const { readBatch, readSample, readBag, readId } = stepCostsIn(setting);
  const ids = tables.reduce((all, table) => all + table.poolingFactor, 0);
  const sample = readSample + readBag * tables.length + readId * ids;
  return (readBatch + (batchSize / setting.devices.hosts) * sample) / readers;
}

/**
 * Exponent of the norm that combines the times of steps and of reading, which both vary: if both
 * take equally long, the devices wait 2^(1/4) - 1 = 19 % of a step for batches. A queue of two
 * batches hides the rest of the variation.
 */
const unevenness = 4;

/**
 * Adds the wait for the readers, which read the next batch during a step. If devices outnumber the
 * cores, they share them in turns: every stage takes longer by that ratio.
 */
function withReading(setting: Setting, busy: StageSeconds): StageSeconds {
  const { devices, constants } = setting;
  const reading = readSeconds(setting);
  const turns = Math.max(1, devices.perHost / (constants.cores ?? devices.perHost));
  const own = Object.values(busy).reduce((all, seconds) => all + seconds, 0);
  const overlapped = (own ** unevenness + reading ** unevenness) ** (1 / unevenness);
  const read = Math.max(overlapped, sharedSeconds(setting, own, reading)) - own;
  const entries = Object.entries({ ...busy, read }).map(([stage, seconds]) => {
    return [stage, turns * seconds];
  });
  return { ...noSeconds, ...Object.fromEntries(entries) };
}

/**
 * Lower bound of the step time if a single device and all readers share the cores of the host. It
 * does not apply to several devices: they leave cores to readers while they wait for each other,
 * and measured steps already include the rest.
 */
function sharedSeconds({ workload, devices, constants }: Setting, own: number, reading: number) {
  if (devices.perHost > 1 || constants.cores === undefined) return 0;
  return (own + reading * workload.readers) / constants.cores;
}

/**
 * Returns the fault of a plan for these tables, as the end of a sentence; undefined if every
 * quantum of every table lies on exactly one device (or on all, as a copy).
 */
export function checkCover(
  tables: readonly Pick<PlannedTable, "name" | "dim" | "rowBlocks">[],
  plan: Plan,
): string | undefined {
  const byTable = new Map<string, PlacedShard[]>(tables.map(({ name }) => [name, []]));
  const W = deviceCount(plan.devices);
  for (const shard of plan.shards) {
    const own = byTable.get(shard.table);
    if (own === undefined) return `it places the table ${shard.table}, which the job does not have`;
    if (typeof shard.device === "number" && shard.device >= W) {
      return `it places ${shard.table} on device ${shard.device} of ${W}`;
    }
    if ((shard.device === "all") !== (shard.scheme === "data-parallel")) {
      return `it places ${shard.table} ${shard.scheme} on device ${shard.device}`;
    }
    own.push(shard);
  }
  for (const table of tables) {
    const held = new Set<string>();
    const quanta = tableQuanta(table);
    const whole = table.rowBlocks * quanta;
    for (const shard of byTable.get(table.name) ?? []) {
      for (let block = shard.firstBlock; block < shard.firstBlock + shard.blocks; block++) {
        const end = shard.firstQuantum + shard.quanta;
        for (let quantum = shard.firstQuantum; quantum < end; quantum++) {
          const isInside = block < table.rowBlocks && quantum < quanta;
          const key = `${block},${quantum}`;
          if (!isInside || held.has(key)) {
            const why = isInside ? "twice" : "which the table does not have";
            return `it places block ${block}, quantum ${quantum} of ${table.name}, ${why}`;
          }
          held.add(key);
        }
      }
    }
    if (held.size < whole) {
      return `it places ${held.size} of the ${whole} quanta of ${table.name}`;
    }
  }
  return undefined;
}

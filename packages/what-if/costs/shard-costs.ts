// Seconds and bytes of the parts of tables that devices hold, by task: lookups and updates as the
// planner counts them, rows that miss a device's cache, and checkpoints.

import {
  allReduceSeconds,
  costOf,
  distinctOfTile,
  loadOf,
  missRatioAt,
  type PlacedShard,
  placeBytesOf,
  rowShare,
  type Setting,
  stepCostsIn,
  tileColumns,
  tileRows,
} from "../../../internal.ts";
import { sharesMemory } from "../hardware/hardware.ts";
import { type CostedCluster, type CostedTable, seenBy } from "./costed-job.ts";
import type { Ledger } from "./ledger.ts";

export function addShards(all: CostedCluster, ledger: Ledger): void {
  const { plan, tables, setting, devices, hardware } = all;
  const byName = new Map(tables.map((table) => [table.name, table]));
  let dealing = 0;
  const isAhead = tables.some(({ deferred }) => deferred > 0);
  for (const shard of plan.shards) {
    const table = byName.get(shard.table);
    if (table === undefined) continue;
    const cluster = seenBy(all, shard.device);
    addMemory(cluster, ledger, table, shard);
    if (shard.device === "all") {
      addCopies(cluster, ledger, table, shard);
      continue;
    }
    const lookup = table.isEarly ? "lookupAhead" : isAhead ? "lookupRest" : "lookup";
    addRows(cluster, ledger, table, shard, lookup);
    if (sharesMemory(cluster.hardware)) addCopying(cluster, ledger, table, shard, lookup);
    if (shard.tier === "cached") addMisses(cluster, ledger, table, shard);
    // Each device deals the ids of its samples to all shards.
    if (all.samples.length > 1) dealing += dealingOf(setting, table, shard);
  }
  for (const [rank, samples] of all.samples.entries()) {
    ledger.add("ids", rank, { seconds: (dealing * samples) / setting.workload.batchSize });
  }
  if (sharesMemory(hardware)) {
    const bytes = 4 * setting.workload.denseParameters;
    const onHost = { hosts: 1, perHost: devices.perHost };
    ledger.add("allReduce", "all", { seconds: allReduceSeconds(onHost, setting.constants, bytes) });
  }
}

/** The planner's costs of a shard, or of one copy. */
function plannedCosts(
  { setting }: { readonly setting: Setting },
  table: CostedTable,
  shard: PlacedShard,
) {
  return costOf(setting, table, shard.scheme, shard.tier, shard, loadOf(setting, table, shard));
}

/** Lookups, updates and ids of a shard on its device. */
function addRows(
  cluster: CostedCluster,
  ledger: Ledger,
  table: CostedTable,
  shard: PlacedShard,
  lookup: "lookup" | "lookupAhead" | "lookupRest",
): void {
  const rank = Number(shard.device);
  const { seconds } = plannedCosts(cluster, table, shard);
  const ofShard = stepCostsIn(cluster.setting).shard / 2;
  const again = table.deferred * seconds.lookup;
  ledger.add(lookup, rank, { seconds: seconds.lookup + ofShard });
  if (again > 0) ledger.add("lookupRest", rank, { seconds: again });
  ledger.add("updateRows", rank, { seconds: seconds.update + seconds.overhead - ofShard });
}

/** Seconds to send the ids of a batch to a shard, by all devices together. */
function dealingOf(setting: Setting, table: CostedTable, shard: PlacedShard): number {
  const { idSeconds, dealSeconds } = setting.constants;
  const dealt = shard.blocks < table.rowBlocks ? idsOf(setting, table) : 0;
  return idsOf(setting, table, shard) * idSeconds + dealt * dealSeconds;
}

/** Ids of a batch in a shard; without a shard, in the table. */
function idsOf({ workload }: Setting, table: CostedTable, shard?: PlacedShard): number {
  const share = shard === undefined ? 1 : rowShare(table, shard, table.idShares);
  return workload.batchSize * table.poolingFactor * share;
}

/** Adds a copied table: every device looks up its samples' ids, and updates the whole table. */
function addCopies(
  cluster: CostedCluster,
  ledger: Ledger,
  table: CostedTable,
  shard: PlacedShard,
): void {
  const { setting, devices, hardware } = cluster;
  const { seconds } = plannedCosts(cluster, table, shard);
  const ofShard = stepCostsIn(setting).shard / 2;
  ledger.add("lookupReplicas", "all", { seconds: seconds.lookup + ofShard });
  ledger.add("updateDense", "all", { seconds: seconds.update + seconds.overhead - ofShard });
  if (!sharesMemory(hardware)) return;
  const onHost = { hosts: 1, perHost: devices.perHost };
  const bytes = table.rows * table.dim * table.weightBytes;
  ledger.add("allReduce", "all", { seconds: allReduceSeconds(onHost, setting.constants, bytes) });
}

/** Adds copies through a host's shared memory, as a share of the costs on one host for all. */
function addCopying(
  { setting, devices: { hosts, perHost } }: CostedCluster,
  ledger: Ledger,
  table: CostedTable,
  shard: PlacedShard,
  lookup: "lookup" | "lookupAhead" | "lookupRest",
): void {
  const W = hosts * perHost;
  if (W === 1) return;
  const near: Setting = { ...setting, devices: { hosts: 1, perHost: W } };
  const { seconds } = plannedCosts({ setting: near }, table, shard);
  const rank = Number(shard.device);
  const add = (task: Parameters<Ledger["add"]>[0], own: number) =>
    ledger.add(task, rank, { seconds: (own * perHost) / W });
  add("receiveIds", seconds.inputExchange - dealingOf(setting, table, shard));
  add(lookup, seconds.outputExchange);
  add("receiveGradients", seconds.backwardExchange);
}

/** Bytes of a row's part in a store. */
function rowBytesOf(table: CostedTable, shard: PlacedShard): number {
  const { weightBytes, stateBytes, rowBytes } = table;
  return tileColumns(table, shard) * (weightBytes + stateBytes) + rowBytes;
}

/** Adds the memory of a shard, and its part of a checkpoint. */
function addMemory(
  cluster: CostedCluster,
  ledger: Ledger,
  table: CostedTable,
  shard: PlacedShard,
): void {
  const { setting, hardware, job } = cluster;
  const whole = tileRows(table, shard) * rowBytesOf(table, shard);
  ledger.addMemory(shard.device, { device: plannedCosts(cluster, table, shard).bytes });
  if (shard.tier === "cached") {
    // Without a disk, all rows rest in the host's memory.
    const { disk } = hardware.host;
    const cached = Math.min(whole, shard.cache?.ddrBytes ?? 0);
    ledger.addMemory(
      shard.device,
      disk === undefined ? { host: whole } : { host: cached, disk: whole },
    );
  }
  // A checkpoint has the rows touched since the last one; each device writes a part of the copies.
  const { everySteps } = job.checkpoint;
  const touched = distinctOfTile(table, shard, everySteps * setting.workload.batchSize);
  const part = shard.device === "all" ? 1 / cluster.samples.length : 1;
  addWriting(cluster, ledger, shard.device, part * touched * rowBytesOf(table, shard));
}

/** Adds a device's part of a checkpoint: its bytes cross the host link, and go to the disk. */
function addWriting(
  { hardware: { device, host } }: CostedCluster,
  ledger: Ledger,
  rank: number | "all",
  bytes: number,
): void {
  ledger.add("checkpoint", rank, {
    hostLink: bytes / device.hostLink,
    hostMemory: bytes / host.memory.bandwidth,
    ...(host.disk !== undefined && { disk: bytes / host.disk.bandwidth }),
  });
}

/**
 * Adds the misses of a device's cache, by the planner's miss curve: each missing row is read from
 * the host's memory, and a changed row is written back for it. Rows that miss the host's cache too,
 * which also holds most rows of the device's cache, are read from the disk. A device that computes
 * in the host's memory copies rows itself, at the planner's costs.
 */
function addMisses(
  cluster: CostedCluster,
  ledger: Ledger,
  table: CostedTable,
  shard: PlacedShard,
): void {
  const { setting, hardware } = cluster;
  const { host, device, constants } = hardware;
  const { missCurve: curve = [] } = table;
  const load = loadOf(setting, table, shard);
  const place = placeBytesOf(setting, table, tileColumns(table, shard));
  const below = (shard.cache?.ddrBytes ?? 0) / Math.max(1, tileRows(table, shard) * place);
  const requested =
    distinctOfTile(table, shard, setting.workload.batchSize) * rowBytesOf(table, shard);
  const bytes = requested * missRatioAt(curve, table.rows * load);
  const fromDisk = requested * missRatioAt(curve, table.rows * Math.min(1, Math.max(load, below)));
  const rank = Number(shard.device);
  if (constants !== undefined) {
    ledger.add("tiers", rank, { seconds: plannedCosts(cluster, table, shard).seconds.prefetch });
  } else {
    ledger.add("tiers", rank, {
      hostLink: bytes / device.hostLink,
      hostMemory: (2 * bytes) / host.memory.bandwidth,
    });
  }
  if (host.disk !== undefined) {
    ledger.add("tiers", rank, { disk: (2 * fromDisk) / host.disk.bandwidth });
  }
}

// The cost of a shard for its device in one step, after TorchRec's shard estimators: seconds by
// stage, and bytes of memory. W = devices, L = devices of a host, N = hosts, b = samples of a
// device, P = pooling factor, d = columns of the shard, e = bytes of an element on the wire. A
// collective's bandwidth counts the bytes of its whole result, as in TorchRec's formulas. A single
// device exchanges nothing.

import {
  type Devices,
  deviceCount,
  type PlacedShard,
  type PlannedDevice,
  type PlannedTable,
  type Scheme,
  type Tier,
  type Tile,
  tileColumns,
  tileRows,
  trainersOf,
  type Workload,
} from "../shards.ts";
import { allReduceSeconds } from "./all-reduce.ts";
import type { MachineConstants } from "./constants.ts";
import { distinctOfTile, distinctRows } from "./distinct-rows.ts";
import { distinctIds, missRatioAt } from "./miss-curve.ts";
import { type RowCosts, rowCostsOf, treeFactor } from "./row-costs.ts";
import { rowShare } from "./row-shares.ts";
import { measuredSlices, noStepCosts, type StepCosts, stepCostsOn } from "./step-costs.ts";

/**
 * The stages of a step, in order; `overhead` is the time outside all other stages (step-costs.ts).
 */
export const stages = [
  "read",
  "inputExchange",
  "prefetch",
  "lookup",
  "outputExchange",
  "dense",
  "backwardExchange",
  "update",
  "allReduce",
  "overhead",
] as const;

export type Stage = (typeof stages)[number];

export type StageSeconds = Readonly<Record<Stage, number>>;

/** The cost of a shard on its device. */
export interface ShardCost {
  readonly seconds: StageSeconds;
  /** Seconds that count in a plan's score: all stages except the input exchange. */
  readonly cost: number;
  /** The part of `cost` in which the device works instead of waiting for bytes. */
  readonly work: number;
  /** Bytes of weights, optimizer state (a cache's share of both) and buffers. */
  readonly bytes: number;
  /** Bytes of all its rows below a cache, in the host's memory or on its disk (belowBytesOf). */
  readonly hostBytes: number;
}

/** The setting that costs are computed for. */
export interface Setting {
  readonly workload: Workload;
  readonly devices: Devices;
  readonly constants: MachineConstants;
  /** Each device by rank, if hosts are unequal; left out: devices are alike. */
  readonly fleet?: readonly PlannedDevice[] | undefined;
}

/** Bytes of memory of a device. */
export function memoryOf({ constants, fleet }: Setting, device: number): number {
  return constants.memoryBytes * (fleet?.[device]?.memory ?? 1);
}

/** Zero seconds in each stage. */
export const noSeconds = Object.fromEntries(stages.map((stage) => [stage, 0])) as StageSeconds;

/**
 * Returns the cost of one shard, or of one copy if the table is replicated. `load`: the share of
 * the shard's rows that its cache holds, if it has a cache.
 */
export function costOf(
  setting: Setting,
  table: PlannedTable,
  scheme: Scheme,
  tier: Tier,
  tile: Tile,
  load: number = table.cacheLoad ?? setting.constants.cacheLoad,
): ShardCost {
  const formula = withSpeed(setting, secondsOf(setting, table, scheme, tier, tile, load));
  const seconds = withFactor(formula, table.costFactor);
  const { inputExchange, dense, ...counted } = seconds;
  const cost = Object.values(counted).reduce((sum, part) => sum + part, 0);
  const { lookup, update, prefetch, overhead } = seconds;
  const work = lookup + update + prefetch + overhead;
  const bytes = bytesOf(setting, table, scheme, tier, tile, load);
  return { seconds, cost, work, bytes, hostBytes: hostBytesOf(setting, table, tier, tile) };
}

/** Behind a cache, all rows lie in the memory of the host, or on its disk. */
function hostBytesOf(setting: Setting, table: PlannedTable, tier: Tier, tile: Tile): number {
  const { hostMemoryBytes, diskBytes } = setting.constants;
  if (tier === "memory") return 0;
  const [rows, columns] = [tileRows(table, tile), tileColumns(table, tile)];
  if (hostMemoryBytes !== undefined) return rows * placeBytesOf(setting, table, columns);
  return diskBytes === undefined ? 0 : rows * rowBytesOf(table, columns);
}

/** Scales the time of rows to the speed with this number of devices on a host. */
function withSpeed(setting: Setting, seconds: StageSeconds): StageSeconds {
  const { rowSpeed } = stepCostsIn(setting);
  return { ...seconds, lookup: seconds.lookup / rowSpeed, update: seconds.update / rowSpeed };
}

/** Scales the time of rows by the factor that a run has measured for the table. */
function withFactor(seconds: StageSeconds, factor = 1): StageSeconds {
  const { lookup, update, prefetch } = seconds;
  return {
    ...seconds,
    lookup: factor * lookup,
    update: factor * update,
    prefetch: factor * prefetch,
  };
}

function secondsOf(
  setting: Setting,
  table: PlannedTable,
  scheme: Scheme,
  tier: Tier,
  tile: Tile,
  load: number,
): StageSeconds {
  const { constants } = setting;
  const work = workOf(setting, table, scheme, tile);
  const tableBytes = table.rows * table.dim * table.weightBytes;
  const { lookup, gradients, sums } = rowSeconds(setting, table, work, tile.blocks);
  return {
    ...exchangesOf(setting, scheme, work, tableBytes),
    read: 0,
    overhead: stepCostsIn(setting).shard + sliceSeconds(setting, table, scheme, tile),
    dense: 0,
    prefetch: tier === "cached" ? prefetchOf(setting, table, work, load) : 0,
    lookup,
    update:
      gradients +
      (work.isReplicated
        ? (tableBytes * constants.denseUpdatePasses) / constants.memoryBandwidth
        : sums),
  };
}

/**
 * Seconds of a shard's further sums: the gradient of a row is summed in each slice that has the
 * row, and then over the slices.
 */
function sliceSeconds(setting: Setting, table: PlannedTable, scheme: Scheme, tile: Tile): number {
  const { batchSize, slices = measuredSlices } = setting.workload;
  const { sliceRow } = stepCostsIn(setting);
  if (sliceRow === 0 || slices <= measuredSlices) return 0;
  const sums = (count: number) => count * distinctOfTile(table, tile, batchSize / count);
  const further = Math.max(0, sums(slices) - sums(measuredSlices));
  // A copy sums over the slices of its own device.
  const share = scheme === "data-parallel" ? 1 / deviceCount(setting.devices) : 1;
  return sliceRow * share * further;
}

/**
 * Seconds of a shard's lookups, of its rows' gradients and update, and of sums over its columns.
 */
function rowSeconds({ constants }: Setting, table: PlannedTable, work: Work, blocks: number) {
  const { ids, vectors, columns, distinct, sumRounds } = work;
  const tree = blocks > 1 ? treeFactor(table, constants.blocksFactor) : 1;
  const exchanged = sumRounds * constants.rowSumSeconds * distinct;
  const costs = rowCostsIn(constants, columns);
  if (costs !== undefined) {
    return {
      lookup: tree * (ids * costs.lookupId + vectors * costs.vector) + distinct * costs.lookupRow,
      gradients: ids * costs.updateId + distinct * costs.updateRow,
      sums: sumRounds * (ids * costs.sumsId + distinct * costs.sumsRow) + exchanged,
    };
  }
  const bandwidth = constants.memoryBandwidth * (work.isReplicated ? constants.denseShare : 1);
  const rows = ids * Math.max(columns, constants.columnsMin) * table.weightBytes;
  const bytes = ids * constants.idBytes + rows + vectors * columns * constants.forwardBytes;
  const lookup = (bytes * penaltyOf(constants, columns)) / bandwidth;
  // The gradient of each distinct row is read once for the update, and once per round of sums.
  const gradients = constants.backwardFactor * lookup;
  return {
    lookup: tree * lookup,
    gradients: gradients + ids * constants.idSortSeconds,
    sums: sumRounds * gradients + exchanged,
  };
}

/** Cache of `rowCostsOf`, by machine and columns, as a search computes the costs of every tile. */
const rowCostsKnown = new WeakMap<MachineConstants["rows"], Map<number, RowCosts | undefined>>();

function rowCostsIn({ rows }: MachineConstants, columns: number): RowCosts | undefined {
  if (rows.length === 0) return undefined;
  const known = rowCostsKnown.get(rows) ?? new Map<number, RowCosts | undefined>();
  if (known.size === 0) rowCostsKnown.set(rows, known);
  const found = known.get(columns) ?? rowCostsOf(rows, columns);
  known.set(columns, found);
  return found;
}

/** Cache of `stepCostsIn`, as a search computes the costs of every tile. */
const stepCostsOfSetting = new WeakMap<Setting, StepCosts>();

/** Returns the remaining costs of a step (step-costs.ts) on the devices of this setting. */
export function stepCostsIn(setting: Setting): StepCosts {
  const { constants, devices } = setting;
  if (constants.steps.length === 0) return noStepCosts;
  const known = stepCostsOfSetting.get(setting);
  if (known !== undefined) return known;
  // A device alone on its host still waits for the other hosts.
  const costs = stepCostsOn(constants.steps, Math.max(devices.perHost, Math.min(2, devices.hosts)));
  stepCostsOfSetting.set(setting, costs);
  return costs;
}

/** The work of a shard in one step. */
interface Work {
  /** Ids looked up in the shard. */
  readonly ids: number;
  /** Pooled vectors, or partial sums of them, that the shard produces. */
  readonly vectors: number;
  readonly columns: number;
  /** The shard's distinct rows in a batch. */
  readonly distinct: number;
  readonly isReplicated: boolean;
  /**
   * Ids compared with the shard's row range: all of the table's ids if its rows are split, else 0.
   */
  readonly dealt: number;
  /** Rounds of sums over its rows; 0 where the shard has all columns. */
  readonly sumRounds: number;
}

function workOf(
  { workload, devices }: Setting,
  table: PlannedTable,
  scheme: Scheme,
  tile: Tile,
): Work {
  const share = rowShare(table, tile, table.idShares);
  const isReplicated = scheme === "data-parallel";
  const samples = workload.batchSize / (isReplicated ? deviceCount(devices) : 1);
  const columns = tileColumns(table, tile);
  return {
    ids: samples * table.poolingFactor * share,
    vectors: samples * (table.lookups ?? 1),
    columns,
    distinct: distinctOfTile(table, tile, samples),
    isReplicated,
    dealt: tile.blocks < table.rowBlocks ? samples * table.poolingFactor : 0,
    sumRounds: columns < table.dim ? table.sumRounds : 0,
  };
}

/** The stages that send bytes. */
function exchangesOf(
  { devices, constants }: Setting,
  scheme: Scheme,
  { ids, vectors, columns, dealt }: Work,
  tableBytes: number,
): Pick<StageSeconds, "inputExchange" | "outputExchange" | "backwardExchange" | "allReduce"> {
  const none = { inputExchange: 0, outputExchange: 0, backwardExchange: 0, allReduce: 0 };
  if (deviceCount(devices) === 1) return none;
  const { insideHost, acrossHosts, forwardBytes, backwardBytes } = constants;
  const link = devices.hosts === 1 ? insideHost : acrossHosts;
  const inputExchange =
    (ids * constants.idBytes + vectors * constants.lengthBytes) / link.allToAll +
    ids * constants.idSeconds +
    dealt * constants.dealSeconds;
  const out = vectors * columns * forwardBytes;
  const dOut = vectors * columns * backwardBytes;
  const copy = (constants.gatherCopies * dOut) / constants.memoryBandwidth;
  switch (scheme) {
    case "table-wise":
    case "column-wise":
    case "table-column-wise":
      return {
        ...none,
        inputExchange,
        outputExchange: out / link.allToAll,
        backwardExchange: dOut / link.allToAll,
      };
    case "row-wise":
      return {
        ...none,
        inputExchange,
        outputExchange: out / link.reduceScatter,
        backwardExchange: dOut / link.allGather + copy,
      };
    case "table-row-wise":
    case "grid": {
      const across = devices.hosts === 1 ? 0 : 1 / (devices.perHost * acrossHosts.allToAll);
      return {
        ...none,
        inputExchange,
        outputExchange: out / insideHost.reduceScatter + out * across,
        backwardExchange: dOut / insideHost.allGather + dOut * across + copy,
      };
    }
    case "data-parallel":
      return { ...none, allReduce: allReduceSeconds(devices, constants, tableBytes) };
    default:
      return scheme satisfies never;
  }
}

/**
 * Seconds to fetch the rows that miss the cache from the backing store: by the miss curve, or,
 * without a curve, for the distinct ids outside the most popular rows.
 */
function prefetchOf(
  { workload, constants }: Setting,
  table: PlannedTable,
  work: Work,
  load: number,
): number {
  const { rows, zipf, poolingFactor, missCurve } = table;
  const draws = workload.batchSize * poolingFactor;
  const distinct = distinctRows(table, workload.batchSize);
  const fetched =
    missCurve === undefined
      ? Math.min(distinct, distinctIds({ rows, draws, zipf, hot: Math.floor(rows * load) }))
      : distinct * missRatioAt(missCurve, rows * load);
  const share = distinct > 0 ? work.distinct / distinct : 0;
  return (fetched * share * work.columns * table.weightBytes) / constants.lowerBandwidth;
}

function penaltyOf({ narrowPenalty }: MachineConstants, columns: number): number {
  if (columns >= 128) return 1;
  return columns >= 64 ? narrowPenalty.below128 : narrowPenalty.below64;
}

function bytesOf(
  setting: Setting,
  table: PlannedTable,
  scheme: Scheme,
  tier: Tier,
  tile: Tile,
  load: number,
): number {
  const { constants } = setting;
  const { ids, vectors, columns } = workOf(setting, table, scheme, tile);
  const held =
    tier === "cached"
      ? load * tileRows(table, tile) * placeBytesOf(setting, table, columns)
      : tileRows(table, tile) * rowBytesOf(table, columns);
  const copies = tier === "cached" ? constants.prefetchInputCopies : constants.inputCopies;
  const input = copies * (ids * constants.idBytes + vectors * constants.lengthBytes);
  const pooled = vectors * columns * (constants.forwardBytes + constants.backwardBytes);
  return Math.ceil(held + input + pooled);
}

function rowBytesOf({ weightBytes, stateBytes, rowBytes }: PlannedTable, columns: number): number {
  return columns * (weightBytes + stateBytes) + rowBytes;
}

/** Bytes of a cached row with this many columns. */
export function placeBytesOf({ workload }: Setting, table: PlannedTable, columns: number): number {
  return rowBytesOf(table, columns) + (workload.budgets?.indexBytes ?? 0);
}

/**
 * Returns the share of a shard's rows that its cache holds: by the cache's size in the plan, if it
 * has one.
 */
export function loadOf(setting: Setting, table: PlannedTable, shard: PlacedShard): number {
  const { cache } = shard;
  if (cache === undefined) return table.cacheLoad ?? setting.constants.cacheLoad;
  const place = placeBytesOf(setting, table, tileColumns(table, shard));
  return Math.min(1, cache.hbmBytes / Math.max(1, tileRows(table, shard) * place));
}

/** Bytes that every device holds back: dense layers with their gradients and state, and ids. */
export function reserveOf(setting: Setting): number {
  const { workload, constants } = setting;
  const trainers = trainersOf(setting);
  const ids = workload.tables.reduce((sum, table) => sum + table.poolingFactor, 0);
  const samples = workload.batchSize / trainers;
  // A device writes each rounded part of its samples apart.
  const parts = (workload.gradientParts ?? 0) / trainers;
  const copies = constants.denseReserve + Math.max(0, parts - 1);
  const dense = copies * workload.denseParameters * 4;
  return Math.ceil(dense + constants.idReserve * samples * ids * constants.idBytes);
}

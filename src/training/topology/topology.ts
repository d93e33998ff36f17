// The topology: everything that a device of a generation knows about the other devices. A pure
// function of the job, the data's limits and the plan, so that each thread computes the same one.

import { type BagSizes, idsRoom, mayOverflow } from "../../data/ids-room.ts";
import type { IkjtGroups } from "../../data/sessions/ikjt.ts";
import type { Targets } from "../../data/targets.ts";
import { wideOf } from "../../data/text/columns.ts";
import type { BagTable } from "../../embedding/lookup/sample-rows.ts";
import { type Shard, shardsOf } from "../../embedding/tables/shards.ts";
import type { TiersSpec } from "../../embedding/tables/tier-options.ts";
import { type RingShape, ringSlots } from "../../exchange/batch-ring.ts";
import type { GradientRounding, TopKShape } from "../../exchange/exchange.ts";
import type { ExchangeSpec } from "../../exchange/options.ts";
import { type Scales, scalesOf } from "../../exchange/scales.ts";
import { subtreeMaxOf, topKShapeOf } from "../../exchange/top-k-layout.ts";
import { type Slices, sliceStart, slicesOf } from "../../kernels/contract/slices.ts";
import { featuresOf, type Lookup, lookupsOf } from "../../model/features.ts";
import type { Graph } from "../../model/graph/graph.ts";
import { graphOf } from "../../model/model.ts";
import type { ModelSpec } from "../../model/options.ts";
import { pinPlan, type ShardPin } from "../../planner/pins.ts";
import { place, type SliceRun, sliceRunsOf } from "../../planner/placement.ts";
import { type Devices, deviceCount, type Plan, schemeOf } from "../../planner/shards.ts";
import { atOnce, type Steps } from "../../ports/turns.ts";
import { aheadTables } from "./ahead-tables.ts";
import {
  type AxisBlock,
  axisBlocksOf,
  freshFirst,
  type Reads,
  readsOf,
} from "./fresh-and-stale.ts";
import { type GradientBuckets, gradientBuckets, roundingOf } from "./gradient-buckets.ts";
import { type HeldLookup, type HeldShard, heldShards } from "./held-shard.ts";
import { axesOf, bagSizesIn, distinctIn, heldTablesOf, idsMaxIn } from "./lookups.ts";
import { type ShardGroups, shardGroupsIn } from "./shard-groups.ts";

/** Sends vectors in full precision. */
export const exactExchange: ExchangeSpec = {
  ...{ forward: "float32", backward: "float32", dense: "float32", denseParts: 8 },
};

/** The parts of the job, and of its data, that the topology depends on. */
export interface TopologyInput {
  readonly model: ModelSpec;
  readonly batchSize: number;
  readonly slices: number;
  /** Longest bag of each feature, over all datasets of the job. */
  readonly idsMax: readonly number[];
  /** Mean ids of each feature in a sample; left out: every bag may be as long as the longest. */
  readonly idsMean?: readonly number[] | undefined;
  /** Whether the ids of each feature have weights; left out: no feature has. */
  readonly weighted?: readonly boolean[];
  /** Labels and groups of a sample; left out: one label. */
  readonly targets?: Targets | undefined;
  /** Features whose lists are deduplicated together; left out: none. */
  readonly ikjt?: IkjtGroups | undefined;
  /** Precision of the vectors on the wire; left out: float32. */
  readonly exchange?: ExchangeSpec;
  /** The placement of shards; left out, each table follows its own options (`place`). */
  readonly plan?: Plan | undefined;
  /** Parts of tables that override the plan's placement; left out: none. */
  readonly pins?: readonly ShardPin[] | undefined;
  /** Slices of each device; 0: it holds rows and runs no samples. Left out: even runs. */
  readonly sliceCounts?: readonly number[] | undefined;
  /** The tiers below device memory; present if a table is cached. */
  readonly tiers?: TiersSpec | undefined;
  /** As of `AheadOptions`; left out: 0. */
  readonly ahead?: number;
}

export interface Topology extends ShardGroups, GradientBuckets {
  readonly input: TopologyInput;
  readonly exchange: ExchangeSpec;
  readonly scales: Scales;
  readonly graph: Graph;
  readonly devices: number;
  /** The host of each device. */
  readonly hostOf: readonly number[];
  /** The slices of each device. */
  readonly sliceRuns: readonly SliceRun[];
  /** The axis of each lookup: 0, the samples; 1 + g, the distinct lists of group g. */
  readonly axisOf: readonly number[];
  /** For each device, the lookups that it pools, as ranges of one axis each. */
  readonly blocksBy: readonly (readonly AxisBlock[])[];
  /** The lookups of a sample; as many as features, where all are pooled. */
  readonly lookups: readonly Lookup[];
  /** For each table, the most ids that the lookups of a sample have in it. */
  readonly idsMaxOf: readonly number[];
  /** The bags of each lookup of a sample. */
  readonly bagSizes: readonly BagSizes[];
  /** Whether frames of ids and rows may be longer than the room for them (long-frames.ts). */
  readonly isLong: boolean;
  /** The table of each feature, with the limits of its ids. */
  readonly bagTables: readonly BagTable[];
  /** For each device the model-parallel shards that it holds and pools (`freshFirst`). */
  readonly heldBy: readonly (readonly HeldShard[])[];
  /** For each device the lookups in these shards, in the order of bags and columns. */
  readonly lookupsBy: readonly (readonly HeldLookup[])[];
  /**
   * For each device the shards that it holds of tables with `dedup`, or with an unpooled feature:
   * it sends rows, and the samples' devices pool them. Columns are numbered over all devices. Empty
   * on a single device, unless rows are sent in fewer bits.
   */
  readonly distinctBy: readonly (readonly HeldShard[])[];
  /** The lookups in these shards. */
  readonly distinctLookups: ReadonlySet<number>;
  /** For each device, the sum of the columns of the lookups that it pools. */
  readonly columnsOf: readonly number[];
  /** The reads of a step. */
  readonly reads: Reads;
  /** Lookups of dynamic ids whose means the samples' devices compute (bag-lengths.ts). */
  readonly countedLookups: readonly number[];
  /** Shards that every device holds a copy of; and the lookups in them. */
  readonly replicated: readonly HeldShard[];
  readonly replicatedLookups: readonly HeldLookup[];
  /**
   * Offsets of each replicated shard's gradient and counts in the all-reduced vector, after the
   * dense gradient.
   */
  readonly replicatedAt: readonly { readonly gradient: number; readonly counts: number }[];
  /** Length of the vector that the all-reduce adds up. */
  readonly gradientLength: number;
  /** The dense gradient's part of that vector, where only its largest elements are sent. */
  readonly topK: TopKShape | undefined;
  /** How the dense gradient is rounded; undefined: it is exact. */
  readonly rounding: GradientRounding | undefined;
  /** Groups of shards with different columns of the same rows, each group ordered by columns. */
  readonly columnGroups: readonly (readonly HeldShard[])[];
}

/**
 * `hostOf`: the host of each device, with consecutive ranks on a host; left out, all devices are on
 * one host. @throws RangeError where the plan is for another number of devices
 */
export function topologyOf(
  input: TopologyInput,
  devices: number,
  hostOf?: readonly number[],
): Topology {
  return atOnce(placingTables(input, devices, hostOf));
}

/** Computes the topology as `topologyOf`, in steps. */
export function* placingTables(
  input: TopologyInput,
  devices: number,
  hostOf: readonly number[] = new Array<number>(devices).fill(0),
): Steps<Topology> {
  const { model, slices, exchange = exactExchange, ikjt = [] } = input;
  const placed = input.plan ?? (yield* placeJob(input, evenly(hostOf)));
  const plan = pinPlan(placed, input.pins ?? []);
  if (deviceCount(plan.devices) !== devices) {
    throw new RangeError(`The plan is for ${deviceCount(plan.devices)} devices, not ${devices}`);
  }
  yield;
  const isQuantised = exchange.forward !== "float32";
  const features = featuresOf(model);
  const lookups = lookupsOf(features);
  const axes = axesOf(features.length, ikjt);
  yield;
  const graph = graphOf(model, axes);
  yield;
  const tables = heldTablesOf(model.tables, lookups, input.weighted, axes);
  const isDistinct = distinctIn(exchange, lookups, devices);
  yield;
  const shards = shardsOf(model.tables, plan, (table, i) => isQuantised || isDistinct(table, i));
  const bagSizes = lookups.map((lookup) => bagSizesIn(input, lookup));
  yield;
  const isAhead = aheadTables({
    ...{ ahead: input.ahead ?? 0, batchSize: input.batchSize, hostOf, shards },
    ...{ tables: model.tables, lookups, bagSizes },
    isDistinct: (table) => isDistinct(tableOf(model.tables, table), table),
  });
  const held = (own: readonly Shard[]): HeldShard[] =>
    heldShards(freshFirst(model.tables, isAhead, own), (table) => tableOf(tables, table));
  yield;
  const ranks = Array.from({ length: devices }, (_, device) => device);
  const byDevice = ranks.map((): Shard[] => []);
  for (const shard of shards) if (shard.device !== "all") byDevice[shard.device]?.push(shard);
  const isDeduped = ({ table }: Shard) => isDistinct(tableOf(model.tables, table), table);
  const heldBy = byDevice.map((own) => held(own.filter((shard) => !isDeduped(shard))));
  yield;
  const distinct = held(byDevice.flat().filter(isDeduped));
  const distinctBy = ranks.map((): HeldShard[] => []);
  for (const shard of distinct) if (shard.device !== "all") distinctBy[shard.device]?.push(shard);
  const replicated = held(shards.filter(({ device }) => device === "all"));
  const lookupsIn = (own: readonly HeldShard[]) => own.flatMap((shard) => shard.lookups);
  const [lookupsBy, replicatedLookups] = [heldBy.map(lookupsIn), lookupsIn(replicated)];
  let gradientLength = graph.layout.length;
  const replicatedAt = replicated.map(({ rows, columns }) => {
    const gradient = gradientLength;
    const counts = gradient + rows * columns;
    gradientLength = counts + rows;
    return { gradient, counts };
  });
  yield;
  const folded = [...lookups.keys()].filter((lookup) => {
    return tableOf(model.tables, lookups[lookup]?.table ?? -1).rowBlocks > 1;
  });
  const shardGroups = shardGroupsIn(folded, hostOf, {
    heldBy: lookupsBy,
    distinctBy: distinctBy.map(lookupsIn),
    replicated: replicatedLookups,
  });
  yield;
  const rounding = roundingOf(exchange, slices, graph);
  const topK = topKShapeOf(exchange, slices, graph.layout.length);
  const among = { devices, hosts: new Set(hostOf).size };
  const buckets = gradientBuckets(graph, gradientLength, among, { rounding, topK });
  yield;
  return {
    ...shardGroups,
    ...buckets,
    rounding,
    bagSizes,
    isLong: bagSizes.some(mayOverflow),
    reads: readsOf({
      tables: model.tables,
      aheadTables: isAhead,
      heldBy: lookupsBy,
      shardGroups,
      distinct: lookupsIn(distinct),
      replicated: replicatedLookups,
    }),
    input,
    exchange,
    scales: scalesOf(exchange, input.batchSize),
    graph,
    devices,
    hostOf,
    sliceRuns: sliceRunsOf(slices, devices, input.sliceCounts),
    lookups,
    axisOf: lookups.map(({ feature }) => axes[feature] ?? 0),
    blocksBy: lookupsBy.map((own) => axisBlocksOf(own)),
    idsMaxOf: tables.map(({ lookups: own }) => {
      return own.reduce((sum, one) => sum + idsMaxIn(input.idsMax, one), 0);
    }),
    bagTables: features.map(({ table, pooling, positions, kept }, i): BagTable => {
      const isWeighted = input.weighted?.[i] === true;
      const of = { ...tableOf(model.tables, table), isWeighted };
      return pooling === "none" ? { ...of, positions, kept } : of;
    }),
    heldBy,
    lookupsBy,
    distinctBy,
    distinctLookups: new Set(lookupsIn(distinct).map(({ lookup }) => lookup)),
    columnsOf: lookupsBy.map((own) => own.reduce((sum, { columns }) => sum + columns, 0)),
    countedLookups: folded.filter((lookup) => {
      const { table, pooling } = lookups[lookup] ?? { table: -1 };
      return pooling === "mean" && tables[table]?.isDynamic === true;
    }),
    replicated,
    replicatedLookups,
    replicatedAt,
    gradientLength,
    topK,
    columnGroups: columnGroupsOf([...heldBy.flat(), ...distinct]),
  };
}

/** Hosts and devices for the planner. Unequal hosts count as one host. */
function evenly(hostOf: readonly number[]): Devices {
  const hosts = new Set(hostOf).size;
  const perHost = hostOf.length / hosts;
  const isEven = hostOf.every((host, device) => host === Math.floor(device / perHost));
  return isEven ? { hosts, perHost } : { hosts: 1, perHost: hostOf.length };
}

/** The plan of a run without a plan file: each table by its own options. */
function* placeJob(input: TopologyInput, devices: Devices): Steps<Plan> {
  const { model } = input;
  const held = heldTablesOf(model.tables, lookupsOf(featuresOf(model)));
  const tables = model.tables.map((table, i) => {
    const ids = held[i]?.lookups.reduce(
      (sum, one) => sum + Math.max(1, idsMaxIn(input.idsMax, one)),
      0,
    );
    const { name, rows, dim, rowBlocks, tier } = table;
    return { name, rows, dim, rowBlocks, tier, scheme: schemeOf(table), cost: dim * (ids ?? 1) };
  });
  yield;
  return place(tables, devices);
}

function columnGroupsOf(shards: readonly HeldShard[]): HeldShard[][] {
  const groups = new Map<string, HeldShard[]>();
  for (const shard of shards) {
    const rows = `${shard.table},${shard.firstBlock}`;
    const known = groups.get(rows);
    if (known === undefined) groups.set(rows, [shard]);
    else known.push(shard);
  }
  return [...groups.values()]
    .filter((group) => group.length > 1)
    .map((group) => group.sort((a, b) => a.firstColumn - b.firstColumn));
}

/** The samples first .. first+count-1 of a batch of `samples` that device `device` runs. */
export function samplesOf(
  topology: Topology,
  device: number,
  samples: number,
): { first: number; count: number } {
  const { slices } = topology.input;
  const run = topology.sliceRuns[device];
  if (run === undefined) throw new RangeError(`The topology has no device ${device}`);
  const first = sliceStart(run.firstSlice, slices, samples);
  return { first, count: sliceStart(run.firstSlice + run.slices, slices, samples) - first };
}

/** The slices of a batch of `samples` that a device runs, relative to the device's first sample. */
export function slicesIn(topology: Topology, device: number, samples: number): Slices {
  const { firstSlice, slices } = topology.sliceRuns[device] ?? { firstSlice: 0, slices: 0 };
  const { rounding, topK, input } = topology;
  const own = slicesOf(firstSlice, slices, input.slices, samples);
  return { ...own, most: rounding?.grain ?? subtreeMaxOf(topK, input.slices) };
}

/** Room for the ids of a lookup in `samples` samples (ids-room.ts). */
export function lookupRoom({ bagSizes }: Topology, lookup: number, samples: number): number {
  const sizes = bagSizes[lookup];
  if (sizes === undefined) throw new RangeError(`The job has no lookup ${lookup}`);
  return idsRoom(samples, sizes);
}

/** For each table, the room for its ids in `samples` samples. */
export function tableRoomsOf(topology: Topology, samples: number): number[] {
  const rooms = topology.idsMaxOf.map(() => 0);
  for (const [lookup, { table }] of topology.lookups.entries()) {
    rooms[table] = (rooms[table] ?? 0) + lookupRoom(topology, lookup, samples);
  }
  return rooms;
}

/** Whether the devices of a table's rows send the lengths of a lookup's bags. */
export function isCounted({ countedLookups }: Topology, lookup: number): boolean {
  return countedLookups.includes(lookup);
}

/**
 * Batches whose bags arrive ahead of their step, and whose rows are prefetched: one at least where
 * tables are read ahead.
 */
export function prefetchOf({ input, heldBy, distinctBy, reads }: Topology): number {
  const isCached = [...heldBy, ...distinctBy].flat().some(({ tier }) => tier === "cached");
  return Math.max(isCached ? (input.tiers?.prefetch ?? 0) : 0, reads.isAhead ? 1 : 0);
}

export function ringShapeOf(topology: Topology): RingShape {
  const { ikjt, idsMax, idsMean } = topology.input;
  const samplesMax = samplesMaxOf(topology);
  const sizes = idsMax.map((most, feature) => {
    return { mean: idsMean?.[feature] ?? Number.POSITIVE_INFINITY, most };
  });
  return {
    devices: topology.devices,
    dense: topology.input.model.dense,
    features: topology.input.idsMax.length,
    idsRoom: samplesMax.map((samples) => {
      return sizes.reduce((sum, one) => sum + idsRoom(samples, one), 0);
    }),
    isWide: wideOf(topology.bagTables).includes(true),
    isWeighted: topology.input.weighted?.includes(true) === true,
    targets: topology.input.targets,
    ...(ikjt === undefined ? {} : { ikjtGroups: ikjt.length }),
    samplesMax,
    slots: ringSlots + prefetchOf(topology),
  };
}

/** Upper bound of the samples of each device, over full and short batches. */
export function samplesMaxOf({ input, sliceRuns: runs }: Topology): number[] {
  const { batchSize, slices } = input;
  return runs.map((run) => Math.min(batchSize, Math.ceil((run.slices * batchSize) / slices)));
}

/** The table at an index of the job. */
export function tableOf<T extends object>(tables: readonly T[], table: number): T {
  const spec = tables[table];
  if (spec === undefined) throw new RangeError(`The job has no table ${table}`);
  return spec;
}

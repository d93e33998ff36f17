// The topology: what every device of a generation knows of all the others. A pure function of the
// job, the data's limits and the plan, so that each thread computes the same one.

import { wideOf } from "../data/options.ts";
import { type BagShard, bagFrameBytes } from "../embedding/bags.ts";
import { distinctFrameBytes } from "../embedding/distinct.ts";
import type { BagTable } from "../embedding/local-rows.ts";
import type { TableSpec } from "../embedding/options.ts";
import { type Shard, shardsOf } from "../embedding/shards.ts";
import { quantaOf } from "../embedding/slab.ts";
import type { RingShape } from "../exchange/batch-ring.ts";
import type { ExchangeShape, PartBytes } from "../exchange/exchange.ts";
import { type ExchangeSpec, exactExchange } from "../exchange/options.ts";
import { packedBytes } from "../kernels/precision.ts";
import { type Subtree, sliceStart, subtreesOf } from "../kernels/slices.ts";
import { type ModelShape, shapeOf } from "../model/dlrm.ts";
import type { ModelSpec } from "../model/options.ts";
import { place, type SliceRun, sliceRunsOf } from "../planner/placement.ts";
import { type Devices, deviceCount, type Plan } from "../planner/shards.ts";
import { type Read, type Reads, readsOf, staleLast } from "./reads.ts";

/** What a placement has to know of the job and its data. */
export interface TopologyInput {
  readonly model: ModelSpec;
  readonly batchSize: number;
  readonly slices: number;
  /** Longest bag of each feature, over all datasets of the job. */
  readonly idsMax: readonly number[];
  /** Whether the ids of each feature have weights; left out, none has. */
  readonly weighted?: readonly boolean[];
  /** How vectors travel; left out, as float32. */
  readonly exchange?: ExchangeSpec;
  /** Where tables lie; left out, as the job says of each (`place`). */
  readonly plan?: Plan | undefined;
}

/** A shard, and its place among those of its device (or among the copies that all have). */
export interface HeldShard extends Shard, BagShard {
  /** Its first column among those of its device. */
  readonly column: number;
}

/** What one device has of a table's columns: the shards whose vectors travel as one. */
export interface Bundle {
  /** Its place among all bundles of the job, those of copies too. */
  readonly bundle: number;
  readonly table: number;
  readonly firstColumn: number;
  readonly columns: number;
  /** By rows. */
  readonly shards: readonly HeldShard[];
  /** The finished subtrees of their blocks: a vector of `columns` each. */
  readonly trees: readonly Subtree[];
}

/** Columns of a table with row blocks, whose tree the samples' side adds up. */
export interface FoldedColumns {
  readonly firstColumn: number;
  readonly columns: number;
  /** The bundles that have them, and where they begin in each. */
  readonly parts: readonly { readonly bundle: Bundle; readonly first: number }[];
}

export interface Topology {
  readonly input: TopologyInput;
  readonly exchange: ExchangeSpec;
  readonly shape: ModelShape;
  readonly devices: number;
  /** The slices of each device. */
  readonly sliceRuns: readonly SliceRun[];
  /** What ids are checked against, by table. */
  readonly bagTables: readonly BagTable[];
  /** For each device the model-parallel shards that it holds and pools, stale ones last. */
  readonly heldBy: readonly (readonly HeldShard[])[];
  /**
   * For each device the shards of tables with `dedup` that it holds: rows travel, and are pooled
   * where the samples are. Columns are counted over all devices. None on a device alone.
   */
  readonly distinctBy: readonly (readonly HeldShard[])[];
  readonly distinctBundles: readonly Bundle[];
  /** For each device, columns of what it pools side by side. */
  readonly columnsOf: readonly number[];
  /** Those that it pools, as they travel. */
  readonly bundlesOf: readonly (readonly Bundle[])[];
  /** What is read when, and how it travels. */
  readonly reads: Reads;
  /** Whether each shard of a device is a bundle: its vectors travel as they are pooled. */
  readonly isPlain: readonly boolean[];
  /** Shards that every device holds a copy of, and the bundles that they would travel in. */
  readonly replicated: readonly HeldShard[];
  readonly replicatedBundles: readonly Bundle[];
  /** Where each replicated shard's gradient and counts lie behind the dense gradient. */
  readonly replicatedAt: readonly { readonly gradient: number; readonly counts: number }[];
  /** Length of the vector that the all-reduce adds up. */
  readonly gradientLength: number;
  /** For each table with row blocks, its columns in runs that no shard is cut inside of. */
  readonly folded: ReadonlyMap<number, readonly FoldedColumns[]>;
  /** Shards that have parts of the same rows, by columns, left to right. */
  readonly columnGroups: readonly (readonly HeldShard[])[];
}

/**
 * `hosts`: over how many hosts the devices are spread evenly, for what is placed here.
 * @throws RangeError where the plan is one for other devices
 */
export function topologyOf(input: TopologyInput, devices: number, hosts = 1): Topology {
  const { model, slices, exchange = exactExchange } = input;
  const shape = shapeOf(model);
  const plan = input.plan ?? placeJob(input, { hosts, perHost: devices / hosts });
  if (deviceCount(plan.devices) !== devices) {
    throw new RangeError(`The plan is for ${deviceCount(plan.devices)} devices, not ${devices}`);
  }
  const isQuantised = exchange.forward !== "float32";
  const isDistinct = ({ dedup }: TableSpec) => dedup && devices > 1;
  const shards = shardsOf(model.tables, plan, (table) => isQuantised || isDistinct(table));
  const held = (own: readonly Shard[]): HeldShard[] => {
    let column = 0;
    return staleLast(model.tables, own).map((shard) => {
      const { rows } = tableOf(model.tables, shard.table);
      const isWeighted = input.weighted?.[shard.table] === true;
      const place = { ...shard, column, isWhole: shard.rows === rows, isWeighted };
      column += shard.columns;
      return place;
    });
  };
  const ranks = Array.from({ length: devices }, (_, device) => device);
  const byDevice = ranks.map((device) => shards.filter((shard) => shard.device === device));
  const isDeduped = ({ table }: Shard) => isDistinct(tableOf(model.tables, table));
  const heldBy = byDevice.map((own) => held(own.filter((shard) => !isDeduped(shard))));
  const distinct = held(byDevice.flat().filter(isDeduped));
  const distinctBy = ranks.map((device) => distinct.filter((shard) => shard.device === device));
  const replicated = held(shards.filter(({ device }) => device === "all"));
  let gradientLength = shape.layout.length;
  const replicatedAt = replicated.map(({ rows, columns }) => {
    const gradient = gradientLength;
    const counts = gradient + rows * columns;
    gradientLength = counts + rows;
    return { gradient, counts };
  });
  let bundles = 0;
  const bundled = (own: readonly HeldShard[]): Bundle[] =>
    bundlesIn(own).map((bundle) => ({ ...bundle, bundle: bundles++ }));
  const bundlesOf = heldBy.map(bundled);
  const replicatedBundles = bundled(replicated);
  const distinctBundles = distinctBy.flatMap(bundled);
  const all = [...bundlesOf.flat(), ...distinctBundles, ...replicatedBundles];
  return {
    input,
    exchange,
    shape,
    devices,
    sliceRuns: sliceRunsOf(slices, devices),
    bagTables: model.tables.map((table, i) => {
      return { ...table, isWeighted: input.weighted?.[i] === true };
    }),
    heldBy,
    distinctBy,
    columnsOf: heldBy.map((own) => own.reduce((sum, { columns }) => sum + columns, 0)),
    bundlesOf,
    reads: readsOf({ tables: model.tables, heldBy, bundlesOf, distinct, replicated }),
    isPlain: bundlesOf.map((own) => own.every(({ shards: parts }) => parts.length === 1)),
    replicated,
    distinctBundles,
    replicatedBundles,
    replicatedAt,
    gradientLength,
    folded: new Map(
      model.tables.flatMap(({ rowBlocks }, table) =>
        rowBlocks === 1 ? [] : [[table, foldedColumnsOf(all.filter((one) => one.table === table))]],
      ),
    ),
    columnGroups: columnGroupsOf([...heldBy.flat(), ...distinct]),
  };
}

/** The plan of a run that was given none. */
function placeJob({ model, idsMax }: TopologyInput, devices: Devices): Plan {
  const tables = model.tables.map((table, i) => {
    const cost = table.dim * Math.max(1, idsMax[i] ?? 1);
    return { ...table, scheme: table.sharding, cost };
  });
  return place(tables, devices);
}

/** The shards of one device in bundles, in order of the first of each. */
function bundlesIn(shards: readonly HeldShard[]): Omit<Bundle, "bundle">[] {
  const groups = new Map<string, HeldShard[]>();
  for (const shard of shards) {
    const key = `${shard.table},${shard.firstColumn},${shard.columns}`;
    groups.set(key, [...(groups.get(key) ?? []), shard]);
  }
  return [...groups.values()].map((own) => {
    const [{ table, firstColumn, columns } = { table: 0, firstColumn: 0, columns: 0 }] = own;
    return { table, firstColumn, columns, shards: own, trees: treesOf(own) };
  });
}

/** The largest aligned subtrees that the blocks of some shards, by rows, make up. */
function treesOf(shards: readonly HeldShard[]): Subtree[] {
  const runs: { first: number; count: number }[] = [];
  for (const { firstBlock, blocks } of shards) {
    const last = runs.at(-1);
    if (last !== undefined && last.first + last.count === firstBlock) last.count += blocks;
    else runs.push({ first: firstBlock, count: blocks });
  }
  return runs.flatMap(({ first, count }) => subtreesOf(first, count));
}

/** The columns of one table's bundles, cut wherever one of them is. */
function foldedColumnsOf(bundles: readonly Bundle[]): FoldedColumns[] {
  const ends = bundles.flatMap((one) => [one.firstColumn, one.firstColumn + one.columns]);
  const cuts = [...new Set(ends)].sort((a, b) => a - b);
  return cuts.slice(0, -1).map((firstColumn, i) => {
    const end = cuts[i + 1] ?? firstColumn;
    const parts = bundles.flatMap((bundle) => {
      const isIn = bundle.firstColumn <= firstColumn && end <= bundle.firstColumn + bundle.columns;
      return isIn ? [{ bundle, first: firstColumn - bundle.firstColumn }] : [];
    });
    return { firstColumn, columns: end - firstColumn, parts };
  });
}

function columnGroupsOf(shards: readonly HeldShard[]): HeldShard[][] {
  const groups = new Map<string, HeldShard[]>();
  for (const shard of shards) {
    const rows = `${shard.table},${shard.firstBlock}`;
    groups.set(rows, [...(groups.get(rows) ?? []), shard]);
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

/** Parts of the all-to-alls of a step or of an evaluation, for a batch of `samples`. */
export function partBytesOf(topology: Topology, samples: number): StepBytes {
  return bytesOf(
    topology,
    topology.sliceRuns.map((_, device) => samplesOf(topology, device, samples).count),
  );
}

type StepBytes = ExchangeShape["bytesMax"];

/** `counts` = samples of each device. */
function bytesOf(topology: Topology, counts: readonly number[]): StepBytes {
  const { heldBy, bundlesOf, distinctBy, exchange, input, reads } = topology;
  const count = (device: number) => counts[device] ?? 0;
  const samples = counts.reduce((sum, own) => sum + own, 0);
  const idsMax = heldBy.map((held) => held.map(({ table }) => input.idsMax[table] ?? 0));
  const bundleBytes = (bundles: readonly Bundle[] = [], bytesOf: (bundle: Bundle) => number) =>
    bundles.reduce((sum, bundle) => sum + bytesOf(bundle), 0);
  const pooled = ({ bundlesOf }: Read): PartBytes => {
    return (from, to) =>
      bundleBytes(bundlesOf[from], ({ columns, trees }) => {
        return trees.length * packedBytes(count(to), columns, exchange.forward);
      });
  };
  const rowsMax = (of: number, device: number) =>
    (distinctBy[device] ?? []).map((shard) => distinctMax(topology, shard, of, count(of)));
  const rows = (of: number, device: number, isIn: (shard: HeldShard) => boolean) =>
    (distinctBy[device] ?? []).filter(isIn).reduce((sum, shard) => {
      return sum + 4 * distinctMax(topology, shard, of, count(of)) * shard.columns;
    }, 0);
  return {
    ids: (from, to) =>
      distinctFrameBytes(subtreesIn(topology, from).length, rowsMax(from, to)) +
      bagFrameBytes(count(from), heldBy[to] ?? [], idsMax[to] ?? []),
    pooled: pooled(reads.fresh),
    stalePooled: pooled(reads.stale),
    dPooled: (from, to) =>
      bundleBytes(bundlesOf[to], ({ columns }) => {
        return packedBytes(count(from), columns, exchange.backward);
      }),
    rows: (from, to) => rows(to, from, reads.fresh.has),
    staleRows: (from, to) => rows(to, from, reads.stale.has),
    dRows: (from, to) => rows(from, to, () => true),
    rowSums: (from, to) => rowSumBytes(topology, samples, from, to),
    losses: (from) => 8 * (topology.sliceRuns[from]?.slices ?? 0),
    scores: (from, to) => (to === 0 ? 8 * count(from) : 0),
  };
}

/** The subtrees of slices that a device finishes, left to right. */
export function subtreesIn({ sliceRuns }: Topology, device: number): Subtree[] {
  const { firstSlice, slices } = sliceRuns[device] ?? { firstSlice: 0, slices: 0 };
  return subtreesOf(firstSlice, slices);
}

/** Most distinct rows of a shard that `samples` samples of a device look up. */
function distinctMax(
  topology: Topology,
  { table, rows }: HeldShard,
  device: number,
  samples: number,
): number {
  const lookups = samples * (topology.input.idsMax[table] ?? 0);
  return Math.min(lookups, rows * subtreesIn(topology, device).length);
}

/** Bytes of sums for each quantum of a row: two float64, for LAMB's norms; others need less. */
const sumBytes = 16;

/** At most: what `from` tells `to` of the rows that both have columns of. */
function rowSumBytes(topology: Topology, samples: number, from: number, to: number): number {
  if (from === to) return 0;
  let bytes = 0;
  for (const group of topology.columnGroups) {
    if (!group.some(({ device }) => device === to)) continue;
    for (const { device, rows, table, columns } of group) {
      if (device !== from) continue;
      const rowsMax = Math.min(rows, samples * (topology.input.idsMax[table] ?? 0));
      bytes += rowsMax * quantaOf(columns) * sumBytes;
    }
  }
  return bytes;
}

export function exchangeShapeOf(topology: Topology): ExchangeShape {
  return {
    devices: topology.devices,
    bytesMax: bytesOf(topology, samplesMaxOf(topology)),
    gradientLength: topology.gradientLength,
    subtrees: topology.sliceRuns.map((_, device) => subtreesIn(topology, device)),
    slices: topology.input.slices,
  };
}

export function ringShapeOf(topology: Topology): RingShape {
  return {
    devices: topology.devices,
    dense: topology.input.model.dense,
    idsMax: topology.input.idsMax,
    isWide: wideOf(topology.input.model.tables).includes(true),
    isWeighted: topology.input.weighted?.includes(true) === true,
    samplesMax: samplesMaxOf(topology),
  };
}

/** Most samples of each device, over full and short batches. */
export function samplesMaxOf(topology: Topology): number[] {
  const { batchSize, slices } = topology.input;
  return topology.sliceRuns.map((run) => {
    const full = Math.ceil((run.slices * batchSize) / slices);
    return Math.min(batchSize, full);
  });
}

/** The table at an index of the job. */
export function tableOf<T extends BagTable | TableSpec>(tables: readonly T[], table: number): T {
  const spec = tables[table];
  if (spec === undefined) throw new RangeError(`The job has no table ${table}`);
  return spec;
}

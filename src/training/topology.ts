// The topology: what every device of a generation knows of all the others. A pure function of the
// job, the data's limits and the plan, so that each thread computes the same one.

import { wideOf } from "../data/options.ts";
import { type BagShard, bagFrameBytes } from "../embedding/bags.ts";
import type { BagTable } from "../embedding/local-rows.ts";
import type { TableSpec } from "../embedding/options.ts";
import { type Shard, shardsOf } from "../embedding/shards.ts";
import { quantaOf } from "../embedding/slab.ts";
import type { RingShape } from "../exchange/batch-ring.ts";
import type { ExchangeShape } from "../exchange/exchange.ts";
import { type ExchangeSpec, exactExchange } from "../exchange/options.ts";
import { packedBytes } from "../kernels/precision.ts";
import { sliceStart, subtreesOf } from "../kernels/slices.ts";
import { type ModelShape, shapeOf } from "../model/dlrm.ts";
import type { ModelSpec } from "../model/options.ts";
import { place, type SliceRun, sliceRunsOf } from "../planner/placement.ts";
import { type Devices, deviceCount, type Plan } from "../planner/shards.ts";

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

/** Columns of a table with row blocks, whose tree the samples' side adds up. */
export interface FoldedColumns {
  readonly firstColumn: number;
  readonly columns: number;
  /** The shards that have them, and where they begin in each. */
  readonly parts: readonly { readonly shard: HeldShard; readonly first: number }[];
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
  /** For each device the model-parallel shards that it holds, ascending. */
  readonly heldBy: readonly (readonly HeldShard[])[];
  /** Columns of those side by side. */
  readonly columnsOf: readonly number[];
  /** Shards that every device holds a copy of. */
  readonly replicated: readonly HeldShard[];
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
  const shards = shardsOf(model.tables, plan, isQuantised);
  const held = (device: number | "all"): HeldShard[] => {
    let column = 0;
    return shards.flatMap((shard) => {
      if (shard.device !== device) return [];
      const { rows } = tableOf(model.tables, shard.table);
      const isWeighted = input.weighted?.[shard.table] === true;
      const own = { ...shard, column, isWhole: shard.rows === rows, isWeighted };
      column += shard.columns;
      return [own];
    });
  };
  const heldBy = Array.from({ length: devices }, (_, device) => held(device));
  const replicated = held("all");
  let gradientLength = shape.layout.length;
  const replicatedAt = replicated.map(({ rows, columns }) => {
    const gradient = gradientLength;
    const counts = gradient + rows * columns;
    gradientLength = counts + rows;
    return { gradient, counts };
  });
  const all = [...heldBy.flat(), ...replicated].sort((a, b) => a.shard - b.shard);
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
    columnsOf: heldBy.map((own) => own.reduce((sum, { columns }) => sum + columns, 0)),
    replicated,
    replicatedAt,
    gradientLength,
    folded: new Map(
      model.tables.flatMap(({ rowBlocks }, table) =>
        rowBlocks === 1 ? [] : [[table, foldedColumnsOf(all.filter((one) => one.table === table))]],
      ),
    ),
    columnGroups: columnGroupsOf(heldBy.flat()),
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

/** The columns of one table's shards, cut wherever one of them is. */
function foldedColumnsOf(shards: readonly HeldShard[]): FoldedColumns[] {
  const ends = shards.flatMap((shard) => [shard.firstColumn, shard.firstColumn + shard.columns]);
  const cuts = [...new Set(ends)].sort((a, b) => a - b);
  return cuts.slice(0, -1).map((firstColumn, i) => {
    const end = cuts[i + 1] ?? firstColumn;
    const parts = shards.flatMap((shard) => {
      const isInside = shard.firstColumn <= firstColumn && end <= shard.firstColumn + shard.columns;
      return isInside ? [{ shard, first: firstColumn - shard.firstColumn }] : [];
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
  const { heldBy, columnsOf, exchange, input } = topology;
  const count = (device: number) => counts[device] ?? 0;
  const samples = counts.reduce((sum, own) => sum + own, 0);
  const idsMax = heldBy.map((held) => held.map(({ table }) => input.idsMax[table] ?? 0));
  const vectors = (of: number, device: number, precision: ExchangeSpec["forward"]) =>
    precision === "float32"
      ? 4 * count(of) * (columnsOf[device] ?? 0)
      : (heldBy[device] ?? []).reduce((sum, { columns }) => {
          return sum + packedBytes(count(of), columns, precision);
        }, 0);
  return {
    ids: (from, to) => bagFrameBytes(count(from), heldBy[to] ?? [], idsMax[to] ?? []),
    pooled: (from, to) => vectors(to, from, exchange.forward),
    dPooled: (from, to) => vectors(from, to, exchange.backward),
    rowSums: (from, to) => rowSumBytes(topology, samples, from, to),
    losses: (from) => 8 * (topology.sliceRuns[from]?.slices ?? 0),
    scores: (from, to) => (to === 0 ? 8 * count(from) : 0),
  };
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
    subtrees: topology.sliceRuns.map((run) => subtreesOf(run.firstSlice, run.slices)),
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

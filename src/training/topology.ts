// The topology: what every device of a generation knows of all the others. A pure function of the
// job, the data's limits and the placement, so that each thread computes the same one.

import { wideOf } from "../data/options.ts";
import { type BagTable, bagWords, idFrameBytes } from "../embedding/bags.ts";
import type { TableSpec } from "../embedding/options.ts";
import { replicatedTables, shardsOf } from "../embedding/shards.ts";
import type { RingShape } from "../exchange/batch-ring.ts";
import type { ExchangeShape } from "../exchange/exchange.ts";
import { sliceStart, subtreesOf } from "../kernels/slices.ts";
import { type ModelShape, shapeOf } from "../model/dlrm.ts";
import type { ModelSpec } from "../model/options.ts";
import { type Placement, place } from "../planner/placement.ts";

/** What a placement has to know of the job and its data. */
export interface TopologyInput {
  readonly model: ModelSpec;
  readonly batchSize: number;
  readonly slices: number;
  /** Longest bag of each feature, over all datasets of the job. */
  readonly idsMax: readonly number[];
  /** Whether the ids of each feature have weights; left out, none has. */
  readonly weighted?: readonly boolean[];
}

export interface Topology {
  readonly input: TopologyInput;
  readonly shape: ModelShape;
  readonly placement: Placement;
  readonly devices: number;
  /** What the bags of each table need to know of it, made once: copies in a step are garbage. */
  readonly bagTables: readonly BagTable[];
  /** For each device, the model-parallel tables that it holds (indices in the job, ascending). */
  readonly tablesOf: readonly (readonly number[])[];
  /** Columns of those tables side by side. */
  readonly columnsOf: readonly number[];
  /** Tables that every device holds a copy of. */
  readonly replicated: readonly number[];
  /** Where each replicated table's gradient and counts lie behind the dense gradient. */
  readonly replicatedAt: readonly { readonly gradient: number; readonly counts: number }[];
  /** Length of the vector that the all-reduce adds up. */
  readonly gradientLength: number;
}

export function topologyOf(input: TopologyInput, devices: number): Topology {
  const { model, slices, idsMax } = input;
  const shape = shapeOf(model);
  const shards = shardsOf(model.tables, idsMax);
  const placement = place({ slices, shards, devices });
  const tablesOf = placement.devices.map((device) =>
    device.shards.flatMap((shard) => shards[shard]?.table ?? []).sort((a, b) => a - b),
  );
  const replicated = replicatedTables(model.tables);
  let gradientLength = shape.layout.length;
  const replicatedAt = replicated.map((table) => {
    const { rows, dim } = tableOf(model.tables, table);
    const gradient = gradientLength;
    const counts = gradient + rows * dim;
    gradientLength = counts + rows;
    return { gradient, counts };
  });
  return {
    input,
    shape,
    placement,
    devices,
    bagTables: model.tables.map((table, feature) => {
      return { ...table, feature, isWeighted: input.weighted?.[feature] === true };
    }),
    tablesOf,
    columnsOf: tablesOf.map((tables) =>
      tables.reduce((sum, table) => sum + tableOf(model.tables, table).dim, 0),
    ),
    replicated,
    replicatedAt,
    gradientLength,
  };
}

/** The samples first .. first+count-1 of a batch of `samples` that device `device` runs. */
export function samplesOf(
  topology: Topology,
  device: number,
  samples: number,
): { first: number; count: number } {
  const { slices } = topology.placement;
  const placed = topology.placement.devices[device];
  if (placed === undefined) throw new RangeError(`The topology has no device ${device}`);
  const first = sliceStart(placed.firstSlice, slices, samples);
  return { first, count: sliceStart(placed.firstSlice + placed.slices, slices, samples) - first };
}

/** Parts of the all-to-alls of a step or of an evaluation, for a batch of `samples`. */
export function partBytesOf(topology: Topology, samples: number): StepBytes {
  return bytesOf(
    topology,
    topology.tablesOf.map((_, device) => samplesOf(topology, device, samples).count),
  );
}

type StepBytes = ExchangeShape["bytesMax"];

/** `counts` = samples of each device. */
function bytesOf(topology: Topology, counts: readonly number[]): StepBytes {
  const count = (device: number) => counts[device] ?? 0;
  const wordsMax = topology.tablesOf.map((tables) => bagWordsOf(topology, tables));
  const columns = (device: number) => topology.columnsOf[device] ?? 0;
  return {
    ids: (from, to) => idFrameBytes(count(from), wordsMax[to] ?? []),
    pooled: (from, to) => 4 * count(to) * columns(from),
    dPooled: (from, to) => 4 * count(from) * columns(to),
    losses: (from) => 8 * (topology.placement.devices[from]?.slices ?? 0),
    scores: (from, to) => (to === 0 ? 8 * count(from) : 0),
  };
}

/** Words of the longest bag of each of `tables`, as it travels. */
export function bagWordsOf(topology: Topology, tables: readonly number[]): number[] {
  const { model, idsMax, weighted } = topology.input;
  return tables.map((table) => {
    const { idBits } = tableOf(model.tables, table);
    return bagWords(idsMax[table] ?? 0, { idBits, isWeighted: weighted?.[table] === true });
  });
}

export function exchangeShapeOf(topology: Topology): ExchangeShape {
  return {
    devices: topology.devices,
    bytesMax: bytesOf(topology, samplesMaxOf(topology)),
    gradientLength: topology.gradientLength,
    subtrees: topology.placement.devices.map((device) =>
      subtreesOf(device.firstSlice, device.slices),
    ),
    slices: topology.placement.slices,
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
  const { batchSize } = topology.input;
  const { slices } = topology.placement;
  return topology.placement.devices.map((device) => {
    const full = Math.ceil((device.slices * batchSize) / slices);
    return Math.min(batchSize, full);
  });
}

/** The table at an index of the job. */
export function tableOf<T extends BagTable | TableSpec>(tables: readonly T[], table: number): T {
  const spec = tables[table];
  if (spec === undefined) throw new RangeError(`The job has no table ${table}`);
  return spec;
}

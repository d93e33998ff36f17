// The plan of one step: its sizes, which are equal on all devices, and this device's share of it.

import { BagMemory } from "../../embedding/lookup/bag-frames.ts";
import { DistinctMemory, LookupMemory } from "../../embedding/lookup/dedup-rows.ts";
import { LocalRows } from "../../embedding/lookup/ids-to-rows.ts";
import type { SparseOptimizerSpec } from "../../embedding/tables/options.ts";
import type { LocalBatch } from "../../exchange/batch-ring.ts";
import type { RowAverage } from "../../kernels/contract/row-average.ts";
import { type Slices, slicesOf } from "../../kernels/contract/slices.ts";
import type { Pass } from "../../model/graph/graph.ts";
import type { Key } from "../../ports/random.ts";
import { partBytesOf } from "../topology/exchange-shape.ts";
import { samplesOf, slicesIn } from "../topology/topology.ts";
import { type Axes, axesOfBatch } from "./axes.ts";
import { type BatchSumsDevice, wholeBatchOf } from "./per-slice.ts";

/** The part of a device that the plan of a step needs. */
export interface PlanningDevice extends BatchSumsDevice {
  /** Random key, from the job's seed. */
  readonly key: Key;
  /**
   * A lane for each step in flight: while one step computes, bags and rows of the next steps
   * arrive.
   */
  readonly lanes: readonly Lane[];
  /** Whether rows have a moving average. */
  readonly recipe: { readonly optimizer: { readonly sparse: Pick<SparseOptimizerSpec, "ema"> } };
  /** Number of steps of the model in memory, trained or restored; evaluations score this model. */
  readonly trained: { readonly steps: number };
}

/** Memory for the bags of one step, as the device of samples and as the device of rows. */
export interface Lane {
  readonly localRows: LocalRows;
  readonly bags: BagMemory;
  readonly distinct: DistinctMemory;
  readonly lookups: LookupMemory;
  extent: BatchExtent | undefined;
}

export function createLane(): Lane {
  return {
    localRows: new LocalRows(),
    bags: new BagMemory(),
    distinct: new DistinctMemory(),
    lookups: new LookupMemory(),
    extent: undefined,
  };
}

export interface StepPlan {
  readonly step: number;
  /** Whether new dynamic ids may be admitted; an evaluation changes no state. */
  readonly isTraining: boolean;
  /**
   * The moving average that an evaluation reads instead of rows; undefined: the rows themselves.
   */
  readonly average: RowAverage | undefined;
  /** Memory for the step's bags. */
  readonly lane: Lane;
  readonly bytes: ReturnType<typeof partBytesOf>;
  /** Number of samples of each device; `samples`: of this device. */
  readonly counts: readonly number[];
  readonly samples: number;
  /** The axes of this device: its samples, and its distinct lists. */
  readonly axes: Axes;
  /** The place of this device's first sample in the batch. */
  readonly firstSample: number;
  /** The slices of this device, and of the whole batch. */
  readonly mine: Slices;
  readonly all: Slices;
  /**
   * The pass of the network over the samples of this device, without the fields that `passOf` adds.
   */
  readonly pass: Omit<Pass, "lengthAt" | "groups">;
}

/** Plans a training step, or an evaluation if `trainingStep` is undefined. */
export function planOf(
  device: PlanningDevice,
  batch: LocalBatch,
  trainingStep: number | undefined,
): StepPlan {
  const { topology } = device;
  const samples = batch.batchSamples;
  const step = trainingStep ?? 0;
  const isTraining = trainingStep !== undefined;
  const lane = laneOf(device, step);
  const { own, mine, all, counts } = extentOf(device, lane, samples);
  return {
    step,
    isTraining,
    average: isTraining ? undefined : averageOf(device),
    lane,
    bytes: partBytesOf(topology, samples),
    counts,
    samples: own.count,
    axes: axesOfBatch({ ...batch, samples: own.count }, topology.input.ikjt ?? [], mine.bounds),
    firstSample: own.first,
    mine,
    all,
    pass: {
      samples: own.count,
      slices: mine,
      draw: isTraining
        ? { key: device.key, step, runs: [{ first: 0, count: own.count, place: own.first }] }
        : undefined,
      batch: isTraining ? wholeBatchOf(device, samples) : undefined,
    },
  };
}

/** The sizes that decide the place of every part in the exchange (R1 of replay.ts). */
export function wholeOf({ samples, all: slices }: StepPlan): Pick<Pass, "samples" | "slices"> {
  return { samples, slices };
}

/** The samples of devices, and the slices, in a batch of one size. */
interface BatchExtent extends Pick<StepPlan, "counts" | "mine" | "all"> {
  readonly samples: number;
  /** The samples of this device. */
  readonly own: { readonly first: number; readonly count: number };
}

/** The extent of a batch. A lane keeps the last one: most batches have the same size. */
function extentOf({ topology, rank }: PlanningDevice, lane: Lane, samples: number): BatchExtent {
  if (lane.extent?.samples === samples) return lane.extent;
  const { slices } = topology.input;
  lane.extent = {
    samples,
    own: samplesOf(topology, rank, samples),
    counts: topology.sliceRuns.map((_, peer) => samplesOf(topology, peer, samples).count),
    mine: slicesIn(topology, rank, samples),
    all: slicesOf(0, slices, slices, samples),
  };
  return lane.extent;
}

/** The moving average of the rows after the trained steps. */
function averageOf({ recipe, trained }: PlanningDevice): RowAverage | undefined {
  const { ema } = recipe.optimizer.sparse;
  return ema && { decay: ema.decay, steps: trained.steps };
}

/** Batches in flight belong to consecutive steps, so each has a lane of its own. */
function laneOf({ lanes }: PlanningDevice, step: number): Lane {
  const lane = lanes[step % lanes.length];
  if (lane === undefined) throw new RangeError("The device has no lanes");
  return lane;
}

/** Per table of the job: ids clamped or hashed on this device so far. */
export function repairedIdsOf({ lanes, topology }: PlanningDevice): number[] {
  return topology.input.model.tables.map(({ name }) =>
    lanes.reduce((sum, { localRows }) => sum + (localRows.repaired.get(name) ?? 0), 0),
  );
}

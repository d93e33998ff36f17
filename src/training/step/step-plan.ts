// What one step is: its sizes, equal on all devices, and this device's place in it.

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

/** What the plan of a step needs of a device. */
export interface PlanningDevice extends BatchSumsDevice {
  /** Random key, from the job's seed. */
  readonly key: Key;
  /** A lane for each step in flight: while one computes, bags and rows of the next ones arrive. */
  readonly lanes: readonly Lane[];
  /** Whether rows have a moving average. */
  readonly recipe: { readonly optimizer: { readonly sparse: Pick<SparseOptimizerSpec, "ema"> } };
  /** Steps that were trained, or restored: evaluations are of the model after them. */
  readonly trained: { readonly steps: number };
}

/** Memory for the bags of one step, as the device of samples and as the device of rows. */
export interface Lane {
  readonly localRows: LocalRows;
  readonly bags: BagMemory;
  readonly distinct: DistinctMemory;
  readonly lookups: LookupMemory;
}

export function createLane(): Lane {
  return {
    localRows: new LocalRows(),
    bags: new BagMemory(),
    distinct: new DistinctMemory(),
    lookups: new LookupMemory(),
  };
}

export interface StepPlan {
  readonly step: number;
  /** Whether ids may be given rows; an evaluation leaves no trace. */
  readonly isTraining: boolean;
  /** What an evaluation reads instead of rows; undefined: rows, as they are. */
  readonly average: RowAverage | undefined;
  /** Memory for the step's bags. */
  readonly lane: Lane;
  readonly bytes: ReturnType<typeof partBytesOf>;
  /** Samples of each device, and of this device. */
  readonly counts: readonly number[];
  readonly samples: number;
  /** What the lookups of this device have a vector for: samples, and distinct lists. */
  readonly axes: Axes;
  /** The place of its first sample in the batch. */
  readonly firstSample: number;
  /** The slices of this device, and of the whole batch. */
  readonly mine: Slices;
  readonly all: Slices;
  /** The run of the network over the samples of this device, but for what these look up. */
  readonly pass: Omit<Pass, "lengthAt" | "groups">;
}

/** The plan of a training step; of an evaluation where `trainingStep` is undefined. */
export function planOf(
  device: PlanningDevice,
  batch: LocalBatch,
  trainingStep: number | undefined,
): StepPlan {
  const { topology, rank } = device;
  const { slices } = topology.input;
  const samples = batch.batchSamples;
  const own = samplesOf(topology, rank, samples);
  const step = trainingStep ?? 0;
  const isTraining = trainingStep !== undefined;
  const mine = slicesIn(topology, rank, samples);
  return {
    step,
    isTraining,
    average: isTraining ? undefined : averageOf(device),
    lane: laneOf(device, step),
    bytes: partBytesOf(topology, samples),
    counts: topology.sliceRuns.map((_, peer) => samplesOf(topology, peer, samples).count),
    samples: own.count,
    axes: axesOfBatch({ ...batch, samples: own.count }, topology.input.ikjt ?? [], mine.bounds),
    firstSample: own.first,
    mine,
    all: slicesOf(0, slices, slices, samples),
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

/** The moving average of the rows after the steps that were trained. */
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

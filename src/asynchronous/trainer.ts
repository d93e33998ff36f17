// One thread of a trainer. It runs the step of a single device (src/training/step/step.ts) over
// rows that are stored on servers, and dense weights that all threads of the trainer change without
// locks. The rows of later batches are pulled ahead, so that a step may read outdated rows.

import type { Shard } from "../embedding/tables/shards.ts";
import type { BatchIntake } from "../exchange/batch-intake.ts";
import { createSoloCells } from "../exchange/cells.ts";
import { layoutOf } from "../exchange/layout.ts";
import { createSharedMemoryExchange } from "../exchange/shared-memory.ts";
import type { Kernels, Tensor } from "../kernels/contract/kernels.ts";
import { createDenseState, type DenseState } from "../model/dense-optimizer.ts";
import { scoreAll } from "../training/loop/evaluation.ts";
import { createDeviceState, type DeviceState, type Recipe } from "../training/step/device-state.ts";
import { type StagedStep, stageStep } from "../training/step/reads.ts";
import { beginStep, finishStep } from "../training/step/step.ts";
import { createLane, type Lane, repairedIdsOf } from "../training/step/step-plan.ts";
import { exchangeShapeOf } from "../training/topology/exchange-shape.ts";
import { type TopologyInput, topologyOf } from "../training/topology/topology.ts";
import type { DenseClient, SparseClient } from "./clients.ts";
import type { Trainer } from "./parameter-servers.ts";
import { createRemoteRows } from "./remote-rows.ts";
import type { ThreadBatches } from "./samples.ts";
import type { TrainerWords } from "./trainer-memory.ts";

/** The settings of asynchronous training that trainers follow. */
export interface AsynchronousSpec {
  /** Steps of a trainer between two exchanges with the center. */
  readonly everySteps: number;
  /** Batches whose rows are pulled ahead. */
  readonly prefetch: number;
  /** Most batches with unconfirmed pushes. */
  readonly pushesMax: number;
}

export interface TrainerOptions {
  /** Input of the topology of a single device (`soloInput`). */
  readonly input: TopologyInput;
  readonly recipe: Recipe;
  /** The shards on the servers. */
  readonly shards: readonly Shard[];
  readonly spec: AsynchronousSpec;
  readonly kernels: Kernels;
  /** Dense weights and optimizer state, which the threads of the trainer share. */
  readonly dense: { readonly flat: Float32Array; readonly slots: readonly Float32Array[] };
  readonly words: TrainerWords;
  readonly batches: ThreadBatches;
  readonly isFirst: boolean;
  readonly sparse: SparseClient;
  readonly center: DenseClient;
  readonly intake: BatchIntake;
}

/** The input of a trainer's topology: one device, with each table as one shard of one block. */
export function soloInput(input: TopologyInput): TopologyInput {
  const { model, batchSize, idsMax, idsMean, weighted, targets } = input;
  const tables = model.tables.map((table) => {
    return { ...table, rowBlocks: 1 as const, sharding: "table-wise" as const };
  });
  const solo = { model: { ...model, tables }, batchSize, slices: 1, idsMax, idsMean, targets };
  return weighted === undefined ? solo : { ...solo, weighted };
}

/**
 * A batch that is read ahead: its rows are pulled from the servers while earlier batches are
 * trained. A later batch reuses its memory.
 */
interface Ahead {
  readonly device: DeviceState;
  readonly step: number;
  readonly staged: StagedStep;
}

export function createTrainer(options: TrainerOptions): Trainer & { readonly device: DeviceState } {
  const { spec, dense, words, batches, isFirst, sparse, center, intake } = options;
  const { device, rows, slots } = createDevice(options);
  /** A view of the device per lane, because the steps in flight are not consecutive. */
  const [scorer = device, ...views] = device.lanes.map((lane) => ({ ...device, lanes: [lane] }));
  const flights: Ahead[] = [];
  let begun = 0;
  let next = -1;

  const begin = async (batch: Parameters<typeof beginStep>[1], step: number) => {
    const own = views[begun++ % views.length] ?? device;
    const staged = await stageStep(own, await beginStep(own, batch, step, -1));
    flights.push({ device: own, step, staged });
    next = step + batches.stride;
  };
  /** Pulls batches that are read, before step `end`; waits for one if none is in flight. */
  const goAhead = async (end: number): Promise<void> => {
    while (next < end && flights.length <= spec.prefetch) {
      const isWaiting = flights.length === 0;
      const batch = isWaiting ? await intake.next("training") : intake.nextIfThere("training");
      if (batch === undefined) return;
      await begin(batch, next);
    }
  };
  const exchange = async (step: number): Promise<void> => {
    if (!words.lockExchange()) return; // Another thread exchanges.
    try {
      const { flat } = dense;
      const d = await center.exchange(step, flat.slice());
      for (let i = 0; i < d.length; i++) flat[i] = (flat[i] ?? 0) - (d[i] ?? 0);
    } finally {
      words.unlockExchange();
    }
  };
  return {
    device,
    async run({ fromStep, toStep, plateau }) {
      device.plateau.share = plateau;
      if (next < 0) next = batches.from(fromStep);
      const done = { lossSum: 0, batches: 0, samples: 0 };
      const repairedBefore = repairedIdsOf(device);
      const end = () => Math.min(toStep, words.pausedAt() ?? toStep);
      for (;;) {
        await goAhead(end());
        const [current] = flights;
        if (current === undefined || current.step >= toStep) break;
        if (!words.begins(current.step)) break;
        flights.shift();
        const { step, staged, device: own } = current;
        rows.next(Math.floor(step / batches.stride), { step, plateau });
        const { loss } = await finishStep(own, staged);
        const { samples } = staged.batch;
        intake.release("training");
        done.lossSum += loss;
        done.batches++;
        done.samples += samples;
        const trained = words.trained(step, samples, loss);
        if (trained >= spec.everySteps * (words.exchanges() + 1)) await exchange(step);
      }
      await sparse.settled(0);
      if (isFirst) await center.keep(slots.map((slot) => slot.slice()));
      const step = end();
      const repairedIds = repairedIdsOf(device).map((ids, i) => ids - (repairedBefore[i] ?? 0));
      return { step, isPaused: step < toStep, ...done, repairedIds };
    },
    async evaluate(part, samples) {
      const own = dense.flat.slice();
      dense.flat.set((await center.center()).weights);
      try {
        const scores = await scoreAll(scorer, intake, samples, part);
        if (scores === undefined) throw new RangeError("A single device has all scores");
        return scores;
      } finally {
        dense.flat.set(own);
      }
    },
  };
}

/** The trainer's device, which has no peers. */
function createDevice({ input, recipe, shards, spec, kernels, dense, sparse }: TrainerOptions) {
  const topology = topologyOf(input, 1);
  const shape = exchangeShapeOf(topology);
  const { bytes, cells } = layoutOf(shape);
  const memory = new ArrayBuffer(bytes);
  const solo = { shape, rank: 0, memory, cells: createSoloCells(cells), kernels };
  const exchange = createSharedMemoryExchange(solo);
  const { pushesMax, prefetch } = spec;
  const held = topology.heldBy[0] ?? [];
  const rows = createRemoteRows({ kernels, client: sparse, held, shards, pushesMax });
  // One lane per batch in flight, and one for an evaluation, as a pause leaves batches in flight.
  const lanes: Lane[] = Array.from({ length: prefetch + 2 }, createLane);
  const { length } = topology.graph.layout;
  const viewOf = (floats: Float32Array): Tensor =>
    kernels.view(floats.buffer, floats.byteOffset, [length]);
  const { clipped } = createDenseState(kernels, recipe.optimizer.dense, length);
  const state: DenseState = { slots: dense.slots.map(viewOf), clipped };
  const shared = { flat: viewOf(dense.flat), state };
  const own = { rank: 0, topology, recipe, kernels, exchange, rows, dense: shared };
  const device: DeviceState = { ...createDeviceState(own), lanes };
  return { device, rows, slots: dense.slots };
}

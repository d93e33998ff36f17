// Trains on D devices in one thread: the real step, exchange and kernels under simulated cells.

import { strict as assert } from "node:assert";
import type { BatchMemory } from "../../../src/data/dataset.ts";
import { IkjtMaker } from "../../../src/data/sessions/ikjt.ts";
import { wideOf } from "../../../src/data/text/columns.ts";
import type { RowKeeper } from "../../../src/embedding/rows/row-keeper.ts";
import type { LocalBatch } from "../../../src/exchange/batch-ring.ts";
import { layoutOf } from "../../../src/exchange/layout.ts";
import { createSharedMemoryExchange } from "../../../src/exchange/shared-memory.ts";
import { createSimulatedCells } from "../../../src/exchange/simulated-cells.ts";
import type { Kernels } from "../../../src/kernels/contract/kernels.ts";
import { predictedBy } from "../../../src/model/loss.ts";
import { digestOf } from "../../../src/training/checkpoint/part-names.ts";
import { scoreAll } from "../../../src/training/loop/evaluation.ts";
import type { Scores } from "../../../src/training/loop/metrics.ts";
import {
  createDeviceState,
  type DeviceState,
  type Recipe,
} from "../../../src/training/step/device-state.ts";
import { forwardStep, trainStep } from "../../../src/training/step/step.ts";
import { exchangeShapeOf } from "../../../src/training/topology/exchange-shape.ts";
import {
  samplesOf,
  slicesIn,
  type Topology,
  type TopologyInput,
  topologyOf,
} from "../../../src/training/topology/topology.ts";
import { leavesOfParts } from "./parts.ts";
import { belowOf } from "./tiers.ts";

/** A full batch of all devices; ids are feature-major, as in `BatchMemory`. */
export interface WholeBatch extends BatchMemory {
  readonly samples: number;
}

export interface LocalDevices {
  readonly topology: Topology;
  readonly states: readonly DeviceState[];
  /** Runs one step on all devices; returns the loss, on which they agree. */
  train(batch: WholeBatch, step: number): Promise<number>;
  /** The logits of the labels of a batch, sample by sample. */
  score(batch: WholeBatch): Promise<Float32Array>;
  /** The scores of an evaluation over these batches, all full but the last. */
  evaluate(batches: readonly WholeBatch[]): Promise<Scores>;
  /** The digest of the whole model. */
  digest(): Promise<string>;
}

export function startLocalDevices(options: {
  readonly input: TopologyInput;
  readonly recipe: Recipe;
  readonly devices: number;
  /** The host of each device, as in the topology; in these tests, all hosts share one memory. */
  readonly hostOf?: readonly number[];
  readonly kernels: () => Kernels;
  readonly seed?: number;
  readonly hasIncrements?: boolean;
  readonly keepers?: readonly RowKeeper[];
}): LocalDevices {
  const { input, recipe, devices, seed = 1, hasIncrements = false } = options;
  const topology = topologyOf(input, devices, options.hostOf);
  const { hostOf, ...shape } = exchangeShapeOf(topology);
  const layout = layoutOf(shape);
  const memory = new SharedArrayBuffer(layout.bytes);
  const cells = createSimulatedCells({ cells: layout.cells, seed });
  const states = Array.from({ length: devices }, (_, rank) => {
    const kernels = options.kernels();
    const exchange = createSharedMemoryExchange({
      shape,
      rank,
      memory,
      cells: cells.cellsOf(rank),
      kernels,
    });
    const backing = belowOf(topology, rank, recipe);
    const keeper = options.keepers?.[rank];
    const parts = { rank, topology, recipe, kernels, exchange, backing, hasIncrements, keeper };
    const state = createDeviceState(parts);
    keeper?.begin();
    return state;
  });
  return {
    topology,
    states,
    async train(batch, step) {
      const losses: number[] = [];
      await cells.run(
        states.map((state) => async () => {
          const local = localPart(topology, state.rank, batch);
          losses[state.rank] = (await trainStep(state, local, step, -1)).loss;
        }),
      );
      const [loss = Number.NaN] = losses;
      if (losses.some((other) => other !== loss)) throw new Error(`Losses differ: ${losses}`);
      return loss;
    },
    async score(batch) {
      const { labels = 1 } = input.targets ?? {};
      const scores = new Float32Array(batch.samples * labels);
      await cells.run(
        states.map((state) => async () => {
          const logits = await forwardStep(state, localPart(topology, state.rank, batch));
          const { first } = samplesOf(topology, state.rank, batch.samples);
          const own = predictedBy(topology.graph, state.kernels.read(logits));
          scores.set(own, first * labels);
        }),
      );
      return scores;
    },
    async evaluate(batches) {
      const samples = batches.reduce((sum, batch) => sum + batch.samples, 0);
      const found: (Scores | undefined)[] = [];
      await cells.run(
        states.map((state) => async () => {
          let taken = 0;
          const next = async () => {
            const batch = batches[taken++];
            assert(batch !== undefined, "there are as many batches as the samples make");
            return localPart(topology, state.rank, batch);
          };
          const intake = { next, release() {}, grant() {} };
          found[state.rank] = await scoreAll(state, intake, samples, "evaluation");
        }),
      );
      const [scores, ...others] = found;
      assert(scores !== undefined && others.every((other) => other === undefined));
      return scores;
    },
    digest: async () => digestOf(await leavesOfParts(states), input.model.tables),
  };
}

/** The part of a batch that one device runs. */
export function localPart(topology: Topology, rank: number, batch: WholeBatch): LocalBatch {
  const { first, count } = samplesOf(topology, rank, batch.samples);
  const { dense, idsMax } = { dense: topology.input.model.dense, ...topology.input };
  const { labels = 1 } = topology.input.targets ?? {};
  const { sampleWeights, groups } = batch;
  const lengths = new Int32Array(idsMax.length * count);
  /** The ranges of ids of the device's own samples, by feature. */
  const own: [from: number, to: number][] = [];
  let at = 0;
  for (let feature = 0; feature < idsMax.length; feature++) {
    const start = feature * batch.samples;
    const all = batch.lengths.subarray(start, start + batch.samples);
    lengths.set(all.subarray(first, first + count), feature * count);
    const from = at + sumOf(all.subarray(0, first));
    const to = from + sumOf(all.subarray(first, first + count));
    own.push([from, to]);
    at = to + sumOf(all.subarray(first + count));
  }
  const idCount = own.reduce((sum, [from, to]) => sum + to - from, 0);
  const partOf = <List extends Int32Array | Float32Array>(from: List, part: List): List => {
    let filled = 0;
    for (const [start, end] of own) {
      part.set(from.subarray(start, end), filled);
      filled += end - start;
    }
    return part;
  };
  const plain: LocalBatch = {
    ticket: 0,
    samples: count,
    batchSamples: batch.samples,
    idCount,
    dense: batch.dense.slice(first * dense, (first + count) * dense),
    labels: batch.labels.slice(labels * first, labels * (first + count)),
    sampleWeights: sampleWeights?.slice(first, first + count),
    groups: groups?.filter((_, i) => {
      const sample = i % batch.samples;
      return sample >= first && sample < first + count;
    }),
    lengths,
    ids: partOf(batch.ids, new Int32Array(idCount)),
    highs: batch.highs && partOf(batch.highs, new Int32Array(idCount)),
    weights: batch.weights && partOf(batch.weights, new Float32Array(idCount)),
  };
  const { ikjt = [], weighted = [] } = topology.input;
  if (ikjt.length === 0) return plain;
  const { bounds } = slicesIn(topology, rank, batch.samples);
  const made = { ...plain, inverse: new Int32Array(ikjt.length * count) };
  const wide = wideOf(topology.bagTables);
  const maker = new IkjtMaker(ikjt, { wide, weighted: wide.map((_, i) => weighted[i] === true) });
  const left = maker.make(made, bounds);
  const kept = made.ids.subarray(0, left);
  return { ...made, idCount: left, ids: kept, weights: made.weights?.subarray(0, left) };
}

function sumOf(lengths: Int32Array): number {
  let sum = 0;
  for (const length of lengths) sum += length;
  return sum;
}

// The model, devices and batches that the benches of whole steps train.

import type { Dataset } from "../../src/data/dataset.ts";
import { IkjtMaker } from "../../src/data/sessions/ikjt.ts";
import { Zipf } from "../../src/data/synthetic/zipf.ts";
import type { LocalBatch } from "../../src/exchange/batch-ring.ts";
import { RandomStream } from "../../src/ports/random.ts";
import type { PipelineSpec } from "../../src/training/loop/pipeline-options.ts";
import type { Recipe } from "../../src/training/step/device-state.ts";
import {
  samplesOf,
  slicesIn,
  type Topology,
  type TopologyInput,
} from "../../src/training/topology/topology.ts";
import type { Link } from "./slow-link.ts";

/** One training: model, devices, recipe and length. */
export interface TrainWork {
  /** Every bag has as many ids as its feature may have. */
  readonly input: TopologyInput;
  readonly devices: number;
  readonly depth: PipelineSpec["depth"];
  readonly recipe: Recipe;
  /** The link between the devices; left out, shared memory alone. */
  readonly link?: Link;
  /** Batches that are made beforehand, and that training cycles through. */
  readonly batches: number;
  /** The training ends after this many seconds or steps, whichever comes first. */
  readonly seconds: number;
  readonly steps: number;
  readonly arithmetic: "auto" | "native" | "reference";
  /** Turns of several trainings, so that fast and slow minutes of the machine affect all alike. */
  readonly turns?: Turns;
  /** Threads of each device. @default 1 */
  readonly threads?: number;
  /** Steps before the clock starts. @default 5 */
  readonly warmUpSteps?: number;
  /** Exponent of the ids' popularity, of all tables or of each; 0: uniform. @default 0 */
  readonly zipf?: number | readonly number[];
  /** Share of the ids of a drawn batch that are ids of the batch before. @default 0 */
  readonly overlap?: number;
  /** Data cache whose first samples are the batches; left out: drawn batches of full bags. */
  readonly cache?: string;
  /** Directory of the rows below device memory; given where a table has such rows. */
  readonly backing?: { readonly directory: string; readonly pageCache: boolean };
}

/** Trainings that take turns of some steps each; all have the same numbers of devices and steps. */
export interface Turns {
  /** One number: the finished turns, counted once for each device. */
  readonly over: SharedArrayBuffer;
  readonly trainings: number;
  readonly index: number;
  /** Steps of a turn. */
  readonly steps: number;
}

/** Waits until all devices have finished the turns before this one. Turns count from 0. */
export function awaitSlot({ over, trainings, index }: Turns, turn: number, devices: number): void {
  const cell = new Int32Array(over);
  for (;;) {
    const count = Atomics.load(cell, 0);
    if (count >= devices * (turn * trainings + index)) return;
    Atomics.wait(cell, 0, count);
  }
}

/** Ends one device's turn. */
export function endSlot({ over }: Turns): void {
  const cell = new Int32Array(over);
  Atomics.add(cell, 0, 1);
  Atomics.notify(cell, 0);
}

/** A device's part of batch `index` of the samples in a cache, in their order. */
export function readBatch(
  topology: Topology,
  rank: number,
  index: number,
  dataset: Dataset,
): LocalBatch {
  const { batchSize } = topology.input;
  const { first, count: samples } = samplesOf(topology, rank, batchSize);
  const indices = Float64Array.from({ length: samples }, (_, i) => index * batchSize + first + i);
  const { idsMax } = dataset;
  const idsPerSample = idsMax.reduce((sum, ids) => sum + ids, 0);
  const memory = {
    dense: new Float32Array(new SharedArrayBuffer(4 * samples * dataset.dense)),
    labels: new Float32Array(new SharedArrayBuffer(4 * samples)),
    lengths: new Int32Array(idsMax.length * samples),
    ids: new Int32Array(samples * idsPerSample),
  };
  const idCount = dataset.read(indices, memory);
  const whole = { ticket: index, samples, batchSamples: batchSize, ...memory };
  const { ikjt = [] } = topology.input;
  if (ikjt.length === 0) return { ...whole, idCount, ids: shared(memory.ids, idCount) };
  const { bounds } = slicesIn(topology, rank, batchSize);
  const lists = { ...whole, inverse: new Int32Array(ikjt.length * samples) };
  const left = new IkjtMaker(ikjt, dataset).make(lists, bounds);
  return { ...lists, idCount: left, ids: shared(lists.ids, left) };
}

/** The first ids, in memory that threads share. */
function shared(from: Int32Array, count: number): Int32Array {
  const ids = new Int32Array(new SharedArrayBuffer(4 * count));
  ids.set(from.subarray(0, count));
  return ids;
}

const notAgain = { share: 0, before: undefined };

/**
 * Draws a device's part of batch `index`, with bags of the greatest length. `again`: the batch
 * before, and the share of the ids that are drawn from it.
 */
export function makeBatch(
  topology: Topology,
  rank: number,
  index: number,
  zipfs: TrainWork["zipf"] = 0,
  again: { readonly share: number; readonly before: LocalBatch | undefined } = notAgain,
): LocalBatch {
  const { model, batchSize, idsMax } = topology.input;
  const { count: samples } = samplesOf(topology, rank, batchSize);
  const random = new RandomStream(727 + rank, index);
  const uniform = () => random.uniform();
  const idsPerSample = idsMax.reduce((sum, ids) => sum + ids, 0);
  const ids = new Int32Array(new SharedArrayBuffer(4 * samples * idsPerSample));
  const lengths = new Int32Array(idsMax.length * samples);
  let at = 0;
  for (const [feature, length] of idsMax.entries()) {
    const rows = model.tables[feature]?.rows ?? 1;
    const end = at + samples * length;
    const zipf = typeof zipfs === "number" ? zipfs : (zipfs[feature] ?? 0);
    const popular = new Zipf(rows, zipf);
    const draw = () => (zipf > 0 ? popular.draw(uniform) : random.word() % rows);
    const first = at;
    while (at < end) {
      const isAgain = again.share > 0 && random.uniform() < again.share;
      const place = isAgain ? first + (random.word() % (end - first)) : at;
      ids[at++] = (isAgain ? again.before?.ids[place] : undefined) ?? draw();
    }
    lengths.fill(length, feature * samples, (feature + 1) * samples);
  }
  const dense = new Float32Array(new SharedArrayBuffer(4 * samples * model.dense));
  for (let i = 0; i < dense.length; i++) dense[i] = random.word() / 0x1_0000_0000;
  const labels = new Float32Array(new SharedArrayBuffer(4 * samples));
  for (let i = 0; i < samples; i++) labels[i] = random.word() & 1;
  return {
    ticket: index,
    samples,
    batchSamples: batchSize,
    idCount: ids.length,
    dense,
    labels,
    lengths,
    ids,
  };
}

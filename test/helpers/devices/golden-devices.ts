// Devices that repeat a golden training: they start with its weights, and train on its batches.

import { oneLabel } from "../../../src/data/targets.ts";
import { sparseOptimizerOptions } from "../../../src/embedding/tables/options.ts";
import {
  denseOptimizerOptions,
  type ModelOptions,
  modelOptions,
} from "../../../src/model/options.ts";
import type { DeviceState } from "../../../src/training/step/device-state.ts";
import type { Golden, GoldenOptimizer } from "../batches/golden.ts";
import { type LocalDevices, startLocalDevices, type WholeBatch } from "./local-devices.ts";

/**
 * Starts devices with the golden's weights. `own`: model options in place of a DLRM with tables of
 * the golden's dim.
 */
export function startGolden(
  from: Golden,
  optimizer: GoldenOptimizer,
  devices: number,
  kernels: Parameters<typeof startLocalDevices>[0]["kernels"],
  own: Partial<ModelOptions> = architectureOf(from),
): LocalDevices {
  const model = modelOptions.parse({
    ...(from.options ?? { kind: "dlrm", bottom: from.bottom.slice(1), top: from.top }),
    dense: from.dense,
    tables: from.rows.map((rows, i) => ({ name: `T${i}`, rows, dim: from.dim })),
    ...own,
  });
  const rates = {
    learningRate: optimizer.lr,
    ...(optimizer.kind === "sgd"
      ? {}
      : { epsilon: optimizer.eps, initialAccumulator: optimizer.initial_accumulator }),
  };
  const rowWise = optimizer.kind === "rowwise_adagrad";
  const clip = from.clip === undefined ? {} : { clip: { value: from.clip } };
  const dense = denseOptimizerOptions.parse({
    kind: rowWise ? "adagrad" : optimizer.kind,
    ...rates,
    ...clip,
  });
  const sparse = sparseOptimizerOptions.parse({
    kind: rowWise ? "rowWiseAdagrad" : optimizer.kind,
    ...rates,
    ...clip,
  });
  const features = featuresIn(from);
  const hasGaps = from.options?.tasks?.some(({ missing }) => missing !== undefined) === true;
  const targets = { ...oneLabel, labels: labelsIn(from), hasGaps };
  const idsMax = features.map((i) => Math.max(...from.tensor(`train/lengths/${i}`)));
  const local = startLocalDevices({
    input: { model, batchSize: from.batch, slices: 8, idsMax, targets },
    recipe: { optimizer: { dense, sparse }, seed: 1, ...(from.loss && { loss: from.loss }) },
    devices,
    kernels,
  });
  for (const state of local.states) load(state, from);
  return local;
}

/** The model options that are specific to the golden's architecture. */
export function architectureOf({ layers }: Golden): Partial<ModelOptions> {
  if (layers.length === 0) return {};
  return {
    kind: "wukong",
    layers: layers.map(({ nF, nL, k, hidden }) => {
      return { interacted: nF, compressed: nL, rank: k ?? "full", hidden };
    }),
  };
}

function load(state: DeviceState, from: Golden): void {
  const { kernels } = state;
  for (const { name, shape, first } of state.topology.graph.layout.parameters) {
    kernels.write(
      kernels.reshape(state.network.flat, shape, first),
      Float32Array.from(from.tensor(`init/${name}`)),
    );
  }
  for (const { shards, rowsOf } of slabsOf(state)) {
    for (const [at, { table }] of shards.entries()) {
      const weights = rowsOf[at]?.weights;
      if (weights === undefined) continue;
      kernels.write(weights, Float32Array.from(from.tensor(`init/emb.${table}.weight`)));
    }
  }
}

/** The slabs of a device: of tables pooled there, and of tables whose rows are sent. */
function slabsOf({ slab, distinct }: DeviceState) {
  return [slab, ...distinct.slabs];
}

/** The count of labels of a sample. */
function labelsIn({ options }: Golden): number {
  return options?.tasks?.length ?? 1;
}

/** The indices of the features, from 0 on. */
function featuresIn(from: Golden): number[] {
  const of = (name: string) => /^train\/lengths\/(\d+)$/.exec(name)?.[1];
  return from.names.flatMap((name) => (of(name) === undefined ? [] : Number(of(name))));
}

/** Reads a parameter, dense or of a whole table, by its name in the golden. */
export function read(local: LocalDevices, name: string): Float64Array {
  const table = /^emb\.(\d+)\.weight$/.exec(name)?.[1];
  for (const state of local.states) {
    const { kernels, network, topology } = state;
    if (table === undefined) {
      const found = topology.graph.layout.parameters.find((one) => one.name === name);
      if (found === undefined) break;
      return Float64Array.from(
        kernels.read(kernels.reshape(network.flat, found.shape, found.first)),
      );
    }
    for (const { shards, rowsOf } of slabsOf(state)) {
      const rows = rowsOf[shards.findIndex((shard) => shard.table === Number(table))];
      if (rows !== undefined) return Float64Array.from(kernels.read(rows.weights));
    }
  }
  throw new RangeError(`No device holds ${name}`);
}

/** The names of all parameters. */
export function parameterNames(from: Golden): string[] {
  return from.names.flatMap((name) => (name.startsWith("init/") ? [name.slice(5)] : []));
}

/** The first `count` batches of a part. */
export function batchesOf(from: Golden, part: "train" | "test", count: number): WholeBatch[] {
  const { batch } = from;
  const features = featuresIn(from);
  const dense = Float32Array.from(from.tensor(`${part}/dense`));
  const labels = Float32Array.from(from.tensor(`${part}/labels`));
  const perBatch = batch * labelsIn(from);
  const lengths = features.map((i) => from.tensor(`${part}/lengths/${i}`));
  const ids = features.map((i) => from.tensor(`${part}/indices/${i}`));
  const width = from.dense;
  const taken = features.map(() => 0);
  return Array.from({ length: count }, (_, step) => {
    const own = lengths.map((all) => all.subarray(step * batch, (step + 1) * batch));
    const ownIds = own.map((bags, i) => {
      const start = taken[i] ?? 0;
      const end = start + bags.reduce((sum, length) => sum + length, 0);
      taken[i] = end;
      return [...(ids[i]?.subarray(start, end) ?? [])];
    });
    return {
      samples: batch,
      dense: dense.slice(step * batch * width, (step + 1) * batch * width),
      labels: labels.slice(step * perBatch, (step + 1) * perBatch),
      lengths: Int32Array.from(own.flatMap((bags) => [...bags])),
      ids: Int32Array.from(ownIds.flat()),
    };
  });
}

/** The largest difference between two arrays at one index. */
export function furthest(actual: ArrayLike<number>, expected: ArrayLike<number>): number {
  if (actual.length !== expected.length) return Number.POSITIVE_INFINITY;
  let most = 0;
  for (let i = 0; i < actual.length; i++) {
    const difference = Math.abs((actual[i] ?? Number.NaN) - (expected[i] ?? Number.NaN));
    if (!(difference <= most))
      most = Number.isNaN(difference) ? Number.POSITIVE_INFINITY : difference;
  }
  return most;
}

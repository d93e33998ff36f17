// Sums over the whole batch that every device needs: each device sends the values of its slices to
// all others, and folds all values in the same order. At the end of a step a slice has one number:
// its loss, or its first bad sample if the step failed. Within a step a finished subtree has n
// numbers, for batch normalisation.

import { oneLabel } from "../../data/targets.ts";
import type { LocalBatch } from "../../exchange/batch-ring.ts";
import type { PartBytes } from "../../exchange/exchange.ts";
import type { Kernels, Tensor } from "../../kernels/contract/kernels.ts";
import type { AxisPass, WholeBatch } from "../../model/graph/graph.ts";
import { denseSubtreesIn } from "../topology/gradient-trees.ts";
import type { StageDevice } from "./stage-device.ts";

/**
 * Begins a round: sends `values`, one for each of this device's slices; `bytes` as of
 * `StepBytes.losses`.
 */
export async function sendPerSlice(
  device: StageDevice<"losses">,
  bytes: PartBytes,
  values: Float64Array,
): Promise<void> {
  const { exchange } = device;
  await exchange.losses.open(bytes);
  const { buffer, byteOffset } = exchange.losses.outbox();
  new Float64Array(buffer, byteOffset, values.length).set(values);
  exchange.losses.start();
}

/** Ends the round: returns the values of all slices of the batch, in order. */
export async function receivePerSlice(device: StageDevice<"losses">): Promise<Float64Array> {
  const { exchange, topology } = device;
  const { buffer, byteOffset } = await exchange.losses.finish();
  const values = new Float64Array(buffer, byteOffset, topology.input.slices).slice();
  exchange.losses.close();
  return values;
}

/** Adds up the values by the tree over slices. */
export function foldSlices(values: Float64Array): number {
  const sums = values.slice();
  for (let count = sums.length; count > 1; count = (count + 1) >> 1) {
    for (let i = 0; 2 * i < count; i++) {
      const right = 2 * i + 1 < count ? sums[2 * i + 1] : 0;
      sums[i] = (sums[2 * i] ?? 0) + (right ?? 0);
    }
  }
  return sums[0] ?? 0;
}

/**
 * Counts the samples of the whole batch that have each label; undefined if no label can be missing.
 * The counts are whole numbers, which float32 holds exactly; each device puts its counts into the
 * first of its subtrees.
 */
export async function countLabels(
  device: BatchSumsDevice,
  { labels: own }: Pick<LocalBatch, "labels">,
  { pass }: { readonly pass: Pick<AxisPass, "batch"> },
): Promise<readonly number[] | undefined> {
  const { kernels, topology, rank } = device;
  const { labels, hasGaps = false } = topology.input.targets ?? oneLabel;
  if (!hasGaps || pass.batch === undefined) return undefined;
  const counts = new Float32Array(labels);
  for (let i = 0; i < own.length; i++) {
    if (!Number.isNaN(own[i])) counts[i % labels] = (counts[i % labels] ?? 0) + 1;
  }
  const tensorOf = ({ buffer }: Float32Array) => kernels.view(buffer, 0, [labels]);
  const parts = denseSubtreesIn(topology, rank).map((_, i) => {
    return tensorOf(i === 0 ? counts : new Float32Array(labels));
  });
  const sums = new Float32Array(labels);
  await pass.batch.sum(tensorOf(sums), parts);
  return Array.from(sums);
}

/** The part of a device that sums over the batch need. */
export interface BatchSumsDevice extends StageDevice<"statistics"> {
  readonly kernels: Kernels;
}

/** Returns the batch of a training step, of `samples` samples, with a sum over all devices. */
export function wholeBatchOf(device: BatchSumsDevice, samples: number): WholeBatch {
  return { samples, sum: (out, parts) => sumOverDevices(device, out, parts) };
}

async function sumOverDevices(
  { exchange, kernels, topology }: BatchSumsDevice,
  out: Tensor,
  parts: readonly Tensor[],
): Promise<void> {
  const count = out.shape.reduce((product, extent) => product * extent, 1);
  const trees = topology.sliceRuns.map((_, device) => denseSubtreesIn(topology, device));
  const { statistics } = exchange;
  await statistics.open((from) => 4 * count * (trees[from]?.length ?? 0));
  const { buffer, byteOffset } = statistics.outbox();
  for (const [i, part] of parts.entries()) {
    kernels.copy(kernels.view(buffer, byteOffset + 4 * count * i, [count]), part);
  }
  statistics.start();
  const all = await statistics.finish();
  const received = trees.flat().map((_, i) => {
    return kernels.view(all.buffer, all.byteOffset + 4 * count * i, [count]);
  });
  kernels.foldSubtrees(out, received, trees.flat(), topology.input.slices);
  statistics.close(true); // The next layer may need its sums at once.
}

// A device that is alone and only predicts: the state and the forward pass of training, without
// peers and without memory for gradients. Row optimizer state is there, so that a model can be
// saved.

import type { LocalBatch } from "../../exchange/batch-ring.ts";
import { layoutOf } from "../../exchange/layout.ts";
import { createSharedMemoryExchange } from "../../exchange/shared-memory.ts";
import { createSoloCells } from "../../exchange/solo-cells.ts";
import type { Kernels } from "../../kernels/contract/kernels.ts";
import { predictedBy } from "../../model/loss.ts";
import { createDeviceState, type DeviceState, type Recipe } from "../step/device-state.ts";
import { forwardStep } from "../step/step.ts";
import { exchangeShapeOf } from "../topology/exchange-shape.ts";
import { type TopologyInput, topologyOf } from "../topology/topology.ts";

/** The state of a model before its first step, for batches of at most `input.batchSize`. */
export function createSoloDevice(options: {
  readonly input: TopologyInput;
  readonly recipe: Recipe;
  readonly kernels: Kernels;
  /** As of `createDeviceState`. */
  readonly hasIncrements?: boolean;
}): DeviceState {
  return createDeviceState({ rank: 0, ...options, ...placeOf(options.input, options.kernels) });
}

/** The same model, with room for bags of at most `idsMax` ids a feature. */
export function withBags(device: DeviceState, idsMax: readonly number[]): DeviceState {
  const { topology, kernels } = device;
  return { ...device, ...placeOf({ ...topology.input, idsMax }, kernels) };
}

/** Features of some samples: as many as `input.batchSize` at most, bags as long as `idsMax`. */
export type SoloBatch = Pick<
  LocalBatch,
  "samples" | "dense" | "lengths" | "ids" | "highs" | "weights"
>;

/** Logits (B) of a batch: the predictions. One call at a time: they share the device's memory. */
export async function scoreBatch(device: DeviceState, batch: SoloBatch): Promise<Float32Array> {
  const { samples, ids } = batch;
  const labels = new Float32Array(samples);
  const place = { ticket: 0, batchSamples: samples, idCount: ids.length, labels };
  const logits = await forwardStep(device, { ...batch, ...place });
  return predictedBy(device.topology.graph, device.kernels.read(logits));
}

function placeOf(input: TopologyInput, kernels: Kernels) {
  const topology = topologyOf(input, 1);
  const shape = { ...exchangeShapeOf(topology), gradientLength: 0, subtrees: [[]] };
  const { bytes, cells } = layoutOf(shape);
  const exchange = createSharedMemoryExchange({
    shape,
    rank: 0,
    memory: new ArrayBuffer(bytes),
    cells: createSoloCells(cells),
    kernels,
  });
  return { topology, exchange };
}

// A single device for inference: a training device's state without peers and without memory for
// gradients. It keeps the optimizer state of rows, so that a model can be saved.

import { createSoloCells } from "../../exchange/cells.ts";
import { layoutOf } from "../../exchange/layout.ts";
import { createSharedMemoryExchange } from "../../exchange/shared-memory.ts";
import type { Kernels } from "../../kernels/contract/kernels.ts";
import { createDeviceState, type DeviceState, type Recipe } from "../step/device-state.ts";
import { exchangeShapeOf } from "../topology/exchange-shape.ts";
import { type TopologyInput, topologyOf } from "../topology/topology.ts";

/** Creates the state of a model before its first step, for batches of at most `input.batchSize`. */
export function createSoloDevice(options: {
  readonly input: TopologyInput;
  readonly recipe: Recipe;
  readonly kernels: Kernels;
  /** As of `createDeviceState`. */
  readonly hasIncrements?: boolean;
}): DeviceState {
  return createDeviceState({ rank: 0, ...options, ...placeOf(options.input, options.kernels) });
}

function placeOf(input: TopologyInput, kernels: Kernels) {
  const topology = topologyOf(input, 1);
  const none = {
    gradientLength: 0,
    buckets: [],
    subtrees: [[]],
    rounding: undefined,
    topK: undefined,
  };
  const shape = { ...exchangeShapeOf(topology), ...none };
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

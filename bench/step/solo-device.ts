// A single device, for benches of accuracy and of JavaScript. Any number of devices would compute
// the same bits.

import { createSoloCells } from "../../src/exchange/cells.ts";
import { layoutOf } from "../../src/exchange/layout.ts";
import { createSharedMemoryExchange } from "../../src/exchange/shared-memory.ts";
import type { Kernels } from "../../src/kernels/contract/kernels.ts";
import { openKernels } from "../../src/kernels/index.ts";
import {
  createDeviceState,
  type DeviceState,
  type Recipe,
} from "../../src/training/step/device-state.ts";
import { exchangeShapeOf } from "../../src/training/topology/exchange-shape.ts";
import { type TopologyInput, topologyOf } from "../../src/training/topology/topology.ts";

export function startSoloDevice(
  input: TopologyInput,
  recipe: Recipe,
  kernels: Kernels = openKernels("auto"),
): DeviceState {
  const topology = topologyOf(input, 1);
  const shape = exchangeShapeOf(topology);
  const layout = layoutOf(shape);
  const cells = createSoloCells(layout.cells);
  const memory = new ArrayBuffer(layout.bytes);
  const exchange = createSharedMemoryExchange({ shape, rank: 0, memory, cells, kernels });
  return createDeviceState({ rank: 0, topology, recipe, kernels, exchange });
}

// Devices that train through the pipeline in one thread: the real pipeline, batch ring, step and
// exchange, over the cells that a test provides.

import {
  type BatchIntake,
  createBatchIntake,
  createBatchOutlet,
  ringLayoutOf,
  type Stream,
} from "../../../src/exchange/batch-ring.ts";
import { type Cells, nobody } from "../../../src/exchange/cells.ts";
import { layoutOf } from "../../../src/exchange/layout.ts";
import { createSharedMemoryExchange } from "../../../src/exchange/shared-memory.ts";
import type { Kernels } from "../../../src/kernels/contract/kernels.ts";
import { digestOf } from "../../../src/training/checkpoint/part-names.ts";
import type { StepMeter } from "../../../src/training/meters/step-meter.ts";
import {
  createDeviceState,
  type DeviceState,
  type Recipe,
} from "../../../src/training/step/device-state.ts";
import { exchangeShapeOf } from "../../../src/training/topology/exchange-shape.ts";
import {
  ringShapeOf,
  type Topology,
  type TopologyInput,
  topologyOf,
} from "../../../src/training/topology/topology.ts";
import { localPart, type WholeBatch } from "./local-devices.ts";
import { leavesOfParts } from "./parts.ts";
import { belowOf } from "./tiers.ts";

export interface PipedDevice {
  readonly state: DeviceState;
  readonly intake: BatchIntake;
}

export interface PipedDevices {
  readonly topology: Topology;
  readonly devices: readonly PipedDevice[];
  /**
   * The only reader: serves `batches` of a stream, each as soon as there is room. `reading` runs
   * before each batch.
   */
  serve(
    stream: Stream,
    batches: readonly WholeBatch[],
    reading?: () => Promise<void>,
  ): Promise<void>;
  digest(): Promise<string>;
}

/** The count of cells that the devices and their reader, the participant after them, share. */
export function pipedCells(input: TopologyInput, devices: number): number {
  const topology = topologyOf(input, devices);
  return layoutOf(exchangeShapeOf(topology)).cells + ringLayoutOf(ringShapeOf(topology)).cells;
}

export function startPipedDevices(options: {
  readonly input: TopologyInput;
  readonly recipe: Recipe;
  readonly devices: number;
  readonly kernels: () => Kernels;
  readonly cellsOf: (participant: number) => Cells;
  readonly meterOf: (rank: number) => StepMeter;
}): PipedDevices {
  const { input, recipe, cellsOf, meterOf } = options;
  const topology = topologyOf(input, options.devices);
  const shape = exchangeShapeOf(topology);
  const layout = layoutOf(shape);
  const memory = new SharedArrayBuffer(layout.bytes);
  const ringShape = ringShapeOf(topology);
  const reader = options.devices;
  const ring = {
    shape: ringShape,
    memory: new SharedArrayBuffer(ringLayoutOf(ringShape).bytes),
    cellBase: layout.cells,
    local: { first: 0, count: options.devices },
  };
  const devices = Array.from({ length: options.devices }, (_, rank) => {
    const kernels = options.kernels();
    const [cells, meter] = [cellsOf(rank), meterOf(rank)];
    const exchange = createSharedMemoryExchange({
      shape,
      rank,
      memory,
      cells,
      cellsFor: (channel) => meter.cellsFor(channel, cells),
      kernels,
    });
    const backing = belowOf(topology, rank, recipe);
    const state = createDeviceState({ rank, topology, recipe, kernels, exchange, backing });
    const own = { ...ring, cells: meter.cellsFor("batch", cells), device: rank };
    return { state, intake: createBatchIntake({ ...own, readers: [reader] }) };
  });
  const readerCells = cellsOf(reader);
  const outlet = createBatchOutlet({ ...ring, cells: readerCells, reader: 0, readers: 1 });
  return {
    topology,
    devices,
    async serve(stream, batches, reading = async () => {}) {
      for (const [ticket, batch] of batches.entries()) {
        await readerCells.waitUntil(
          () => "room in the ring",
          () => outlet.nextTicket(stream) === ticket,
          nobody,
        );
        await reading();
        for (const device of outlet.devicesOf("training")) {
          const part = localPart(topology, device, batch);
          const slot = outlet.slotMemory(stream, device, ticket, part.samples);
          slot.dense.set(part.dense);
          slot.labels.set(part.labels);
          slot.lengths.set(part.lengths);
          slot.ids.set(part.ids);
          if (part.highs !== undefined) slot.highs?.set(part.highs);
          if (part.inverse !== undefined) slot.inverse?.set(part.inverse);
          outlet.publish(stream, device, ticket, part);
        }
      }
    },
    async digest() {
      const leaves = await leavesOfParts(devices.map(({ state }) => state));
      return digestOf(leaves, input.model.tables);
    },
  };
}

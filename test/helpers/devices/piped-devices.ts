// Devices that train through the pipeline in one thread: the real pipeline, batch ring, step and
// exchange, over the cells that a test provides.

import { type BatchIntake, createBatchIntake } from "../../../src/exchange/batch-intake.ts";
import { createBatchOutlet } from "../../../src/exchange/batch-outlet.ts";
import { ringLayoutOf, type Stream } from "../../../src/exchange/batch-ring.ts";
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
export function pipedCells(
  input: TopologyInput,
  devices: number,
  hostOf?: readonly number[],
): number {
  const topology = topologyOf(input, devices, hostOf);
  const { hostOf: _, ...shape } = exchangeShapeOf(topology);
  return layoutOf(shape).cells + ringLayoutOf(ringShapeOf(topology)).cells;
}

export function startPipedDevices(options: {
  readonly input: TopologyInput;
  readonly recipe: Recipe;
  readonly devices: number;
  /** As in `startLocalDevices`. */
  readonly hostOf?: readonly number[] | undefined;
  readonly kernels: () => Kernels;
  readonly cellsOf: (participant: number) => Cells;
  readonly meterOf: (rank: number) => StepMeter;
}): PipedDevices {
  const { input, recipe, cellsOf, meterOf } = options;
  const topology = topologyOf(input, options.devices, options.hostOf);
  const { hostOf: _, ...shape } = exchangeShapeOf(topology);
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
      const all = batches.map((batch) =>
        outlet.devicesOf(stream).map((device) => localPart(topology, device, batch)),
      );
      /** Batches, or their pieces, that are still to be put into slots. */
      let left = all.flat().reduce((sum, { idCount }, i) => {
        const room = ringShape.idsRoom[i % devices.length] ?? 1;
        return sum + Math.max(1, Math.ceil(idCount / room));
      }, 0);
      while (left > 0) {
        let ticket = -1;
        await readerCells.waitUntil(
          () => "room in the ring",
          () => {
            ticket = outlet.nextTicket(stream) ?? -1;
            return ticket >= 0;
          },
          nobody,
        );
        left -= outlet.devicesOf(stream).filter((one) => outlet.lacks(stream, one, ticket)).length;
        if (outlet.goOn(stream, ticket)) continue;
        await reading();
        for (const [device, part] of (all[ticket] ?? []).entries()) {
          if (!outlet.lacks(stream, device, ticket)) continue;
          const { samples, batchSamples } = part;
          outlet.fill({ stream, device, ticket, samples, batchSamples }, (slot) => {
            slot.dense.set(part.dense);
            slot.labels.set(part.labels);
            slot.lengths.set(part.lengths);
            if (part.idCount > slot.ids.length) return part.idCount;
            slot.ids.set(part.ids);
            if (part.highs !== undefined) slot.highs?.set(part.highs);
            if (part.inverse !== undefined) slot.inverse?.set(part.inverse);
            return part.idCount;
          });
        }
      }
    },
    async digest() {
      const leaves = await leavesOfParts(devices.map(({ state }) => state));
      return digestOf(leaves, input.model.tables);
    },
  };
}

// Calibration: measures, on one device's thread, the rates of kernels and of the exchange with
// other devices, for the planner. Rates count bytes as the cost model does
// (src/planner/cost/cost.ts). All devices run the same measurement at the same time, because they
// share the host's memory in training too.

import { createAtomicCells } from "../../src/exchange/atomic-cells.ts";
import {
  channelNames,
  type Exchange,
  type ExchangeShape,
  type PartBytes,
} from "../../src/exchange/exchange.ts";
import { createSharedMemoryExchange } from "../../src/exchange/shared-memory.ts";
import type { Kernels } from "../../src/kernels/contract/kernels.ts";
import { subtreesOf } from "../../src/kernels/contract/slices.ts";
import { openKernels } from "../../src/kernels/index.ts";
import { sliceRunsOf } from "../../src/planner/placement.ts";
import type { Clock } from "../../src/ports/clock.ts";
import { measureRows, type RowRates } from "./calibration-rows.ts";
import { type CalibrationSize, least, leastSeconds } from "./calibration-time.ts";

/** The task of a calibration thread, one of `devices`. */
export interface CalibrationTask {
  readonly program: "calibrate";
  readonly rank: number;
  readonly devices: number;
  readonly arithmetic: "auto" | "native" | "reference";
  readonly size: CalibrationSize;
  readonly words: SharedArrayBuffer;
  readonly memory: SharedArrayBuffer;
}

/** The measured rates of one device. */
export interface DeviceRates {
  readonly arithmetic: string;
  readonly rows: RowRates;
  readonly denseFlops: number;
  /** Bytes per second; undefined for a single device. */
  readonly allToAll: number | undefined;
  readonly allReduce: number | undefined;
}

/** Deadline for another thread within one measurement. */
const calibrationDeadlineMs = 300_000;

/** Runs the calibration of one device, together with the other devices of the task. */
export async function runCalibration(task: CalibrationTask, clock: Clock) {
  const { rank, devices, arithmetic, size, words, memory } = task;
  const kernels = openKernels(arithmetic);
  const cells = createAtomicCells({
    words: new Int32Array(words),
    participants: devices,
    participant: rank,
    generation: 1,
    deadlineMs: calibrationDeadlineMs,
    clock,
  });
  const shape = calibrationShape(size, devices);
  const exchange = createSharedMemoryExchange({ shape, rank, memory, cells, kernels });
  return measureDevice(kernels, exchange, clock, size);
}

/** The shape of the exchange that a calibration uses. */
export function calibrationShape(size: CalibrationSize, devices: number): ExchangeShape {
  let slices = 8;
  while (slices < devices) slices *= 2;
  const pooled: PartBytes = () => size.partBytes;
  const none = Object.fromEntries(channelNames.map((name) => [name, () => 0]));
  return {
    devices,
    bytesMax: { ...none, pooled } as ExchangeShape["bytesMax"],
    gradientLength: size.gradientLength,
    subtrees: sliceRunsOf(slices, devices).map((run) => subtreesOf(run.firstSlice, run.slices)),
    slices,
  };
}

/** Measures the rates of one device, in step with the other devices of the exchange. */
export async function measureDevice(
  kernels: Kernels,
  exchange: Exchange,
  clock: Clock,
  size: CalibrationSize,
): Promise<DeviceRates> {
  const isAlone = exchange.devices === 1;
  // Exchanges and barriers keep the devices in step between the measurements.
  const allToAll = await measureAllToAll(exchange, clock, size);
  const allReduce = await measureAllReduce(exchange, clock, size);
  const rows = await measureRows(kernels, clock, size, () => exchange.barrier());
  return {
    arithmetic: kernels.arithmetic,
    rows,
    denseFlops: measureProduct(kernels, clock, size),
    allToAll: isAlone ? undefined : allToAll,
    allReduce: isAlone ? undefined : allReduce,
  };
}

function measureProduct(kernels: Kernels, clock: Clock, size: CalibrationSize): number {
  const extent = size.productExtent;
  const [out, x, w] = [0, 1, 2].map(() => kernels.tensor([extent, extent]));
  const b = kernels.tensor([extent]);
  if (out === undefined || x === undefined || w === undefined) return 0;
  kernels.fill(x, 0.5);
  kernels.fill(w, 0.5);
  const seconds = leastSeconds(clock, size.rounds, () => kernels.linear(out, x, w, b, false));
  return (2 * extent ** 3) / seconds;
}

/**
 * Bytes per second of an all-to-all round: each part is written by its sender and read by its
 * receiver.
 */
async function measureAllToAll(
  { pooled, devices }: Exchange,
  clock: Clock,
  size: CalibrationSize,
): Promise<number> {
  const own = new Uint8Array(size.partBytes).fill(1);
  const inbox = new Uint8Array(devices * size.partBytes);
  const seconds: number[] = [];
  for (let round = 0; round < size.rounds; round++) {
    const startMs = clock.now();
    await pooled.open(() => size.partBytes);
    for (let to = 0; to < devices; to++) {
      const { buffer, byteOffset, byteLength } = pooled.outbox(to);
      new Uint8Array(buffer, byteOffset, byteLength).set(own);
    }
    pooled.start();
    const { buffer, byteOffset, byteLength } = await pooled.finish();
    inbox.set(new Uint8Array(buffer, byteOffset, byteLength));
    pooled.close();
    seconds.push((clock.now() - startMs) / 1000);
  }
  return (devices * size.partBytes) / least(seconds);
}

async function measureAllReduce(
  { gradients }: Exchange,
  clock: Clock,
  size: CalibrationSize,
): Promise<number> {
  const seconds: number[] = [];
  for (let round = 0; round < size.rounds; round++) {
    const startMs = clock.now();
    await gradients.open();
    gradients.start();
    await gradients.finish();
    gradients.close();
    seconds.push((clock.now() - startMs) / 1000);
  }
  return (4 * size.gradientLength) / least(seconds);
}

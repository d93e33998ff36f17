// Calibration: measures, on one device's thread, the rates of kernels and of the exchange with
// other devices, for the planner. Rates count bytes as the cost model does
// (src/planner/cost/cost.ts). All devices run the same measurement at the same time, because they
// share the host's memory in training too.

import type { Exchange, ExchangeShape } from "../../src/exchange/exchange.ts";
import type { Kernels } from "../../src/kernels/contract/kernels.ts";
import type { Clock } from "../../src/ports/clock.ts";
import { type CalibrationSize, measureRows, type RowRates } from "./calibration-rows.ts";
import {
  least,
  leastSeconds,
  type MeasuringThread,
  measuringShape,
  openMeasuring,
} from "./measuring.ts";

/** The task of a calibration thread, one of `devices`. */
export interface CalibrationTask extends MeasuringThread {
  readonly program: "calibrate";
  readonly devices: number;
  readonly arithmetic: "auto" | "native" | "reference";
  readonly size: CalibrationSize;
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

/** Runs the calibration of one device, together with the other devices of the task. */
export function runCalibration(task: CalibrationTask, clock: Clock): Promise<DeviceRates> {
  const { devices, arithmetic, size } = task;
  const shape = calibrationShape(size, devices);
  const { kernels, exchange } = openMeasuring(task, shape, { arithmetic, clock });
  return measureDevice(kernels, exchange, clock, size);
}

/** The shape of the exchange that a calibration uses. */
export function calibrationShape(size: CalibrationSize, devices: number): ExchangeShape {
  return measuringShape(devices, { pooled: () => size.partBytes }, size.gradientLength);
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
export async function measureAllToAll(
  { pooled, devices }: Exchange,
  clock: Clock,
  size: Pick<CalibrationSize, "partBytes" | "rounds">,
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
    pooled.close(true);
    seconds.push((clock.now() - startMs) / 1000);
  }
  return (devices * size.partBytes) / least(seconds);
}

export async function measureAllReduce(
  { gradients }: Exchange,
  clock: Clock,
  size: Pick<CalibrationSize, "gradientLength" | "rounds">,
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

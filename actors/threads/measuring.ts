// Measurements on threads, one for each device, that meet in an exchange of their own: for
// calibration (calibration-program.ts) and for cost networks (costs/cost-probe-program.ts). Other
// load on the machine can only slow a measurement down, so the fastest repetition counts.

import { PeerLostError, RemoteError } from "../../src/errors/errors.ts";
import { createAtomicCells } from "../../src/exchange/atomic-cells.ts";
import { cellWords } from "../../src/exchange/cells.ts";
import { channelNames, type Exchange, type ExchangeShape } from "../../src/exchange/exchange.ts";
import { layoutOf } from "../../src/exchange/layout.ts";
import { createSharedMemoryExchange } from "../../src/exchange/shared-memory.ts";
import type { Kernels, RowRule } from "../../src/kernels/contract/kernels.ts";
import { subtreesOf } from "../../src/kernels/contract/slices.ts";
import { openKernels } from "../../src/kernels/index.ts";
import { sliceRunsOf } from "../../src/planner/placement.ts";
import type { Clock } from "../../src/ports/clock.ts";
import type { Launcher } from "../../src/ports/launcher.ts";
import { threadFile } from "./thread-file.ts";

/** A measuring thread: its device, and the memory of the exchange. */
export interface MeasuringThread {
  readonly rank: number;
  readonly words: SharedArrayBuffer;
  readonly memory: SharedArrayBuffer;
}

/** Deadline for another thread within one measurement. */
const deadlineMs = 300_000;

/** The update rule of measured tables. */
export const measuredRule: RowRule = {
  kind: "rowWiseAdagrad",
  learningRate: 1e-3,
  epsilon: 1e-8,
  l2: 0,
  decay: 0,
};

/**
 * The shape of an exchange of some channels, with the bytes of a part of each; a device has a slice
 * or more.
 */
export function measuringShape(
  devices: number,
  bytes: Partial<ExchangeShape["bytesMax"]>,
  gradientLength: number,
): ExchangeShape {
  let slices = 8;
  while (slices < devices) slices *= 2;
  const none = Object.fromEntries(channelNames.map((name) => [name, () => 0]));
  return {
    devices,
    bytesMax: { ...none, ...bytes } as ExchangeShape["bytesMax"],
    gradientLength,
    subtrees: sliceRunsOf(slices, devices).map((run) => subtreesOf(run.firstSlice, run.slices)),
    slices,
  };
}

/** Opens the kernels and the exchange of a measuring thread; over hosts, with a bridge. */
export function openMeasuring(
  { rank, words, memory }: MeasuringThread,
  shape: ExchangeShape,
  { arithmetic, clock }: { arithmetic: "auto" | "native" | "reference"; clock: Clock },
): { readonly kernels: Kernels; readonly exchange: Exchange } {
  const kernels = openKernels(arithmetic);
  const { devices, hostOf } = shape;
  const cells = createAtomicCells({
    ...{ words: new Int32Array(words), participant: rank, generation: 1, deadlineMs, clock },
    participants: devices + (hostOf === undefined ? 0 : 1),
  });
  const exchange = createSharedMemoryExchange({
    ...{ shape, rank, memory, cells, kernels },
    ...(hostOf !== undefined && { bridge: devices }),
  });
  return { kernels, exchange };
}

/**
 * Runs a task on a thread for each device of the shape, all at the same time; returns the reports
 * in the order of devices.
 * @throws PeerLostError, or the thread's own error as a RemoteError, where a thread fails
 */
export function measureOnThreads<Report>(
  launcher: Launcher,
  shape: ExchangeShape,
  taskOf: (thread: MeasuringThread) => { readonly program: string; readonly rank: number },
): Promise<Report[]> {
  const layout = layoutOf(shape);
  const words = new SharedArrayBuffer(4 * cellWords(shape.devices, layout.cells));
  const memory = new SharedArrayBuffer(layout.bytes);
  return Promise.all(
    Array.from({ length: shape.devices }, (_, rank) => {
      return measureOnThread<Report>(launcher, taskOf({ rank, words, memory }));
    }),
  );
}

/**
 * Runs a task on a thread, and returns its report.
 * @throws PeerLostError, or the thread's own error as a RemoteError, where the thread fails
 */
export async function measureOnThread<Report>(
  launcher: Launcher,
  task: { readonly program: string; readonly rank: number },
): Promise<Report> {
  const name = `${task.program}-${task.rank}`;
  const thread = launcher.start<never, Report>(threadFile, task, name);
  let report: Report | undefined;
  thread.onReport((received) => {
    report = received;
  });
  const end = await thread.ended;
  if (report !== undefined) return report;
  if (end.kind === "failed") throw new RemoteError(end.error);
  throw new PeerLostError(name, end.kind === "lost" ? end.reason : "it ended without a report");
}

/** Seconds of the fastest call, after a warm-up call. */
export function leastSeconds(clock: Clock, rounds: number, work: () => void): number {
  work();
  const seconds = Array.from({ length: rounds }, () => {
    const startMs = clock.now();
    work();
    return (clock.now() - startMs) / 1000;
  });
  return least(seconds);
}

/** The smallest value; at least 1e-9, since a clock's tick may be longer than the measured work. */
export function least(values: readonly number[]): number {
  return values.reduce((all, one) => Math.min(all, Math.max(one, 1e-9)), Number.POSITIVE_INFINITY);
}

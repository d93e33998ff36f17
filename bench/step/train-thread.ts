// A device's thread in the benches of whole steps: the real pipeline, step and exchange, fed from
// batches that are made before the clock starts, as in the peer; or by a reader through the ring.

import { parentPort, workerData } from "node:worker_threads";
import { openCache } from "../../src/data/cache/cache-reader.ts";
import { createAtomicCells } from "../../src/exchange/atomic-cells.ts";
import { type BatchIntake, createBatchIntake } from "../../src/exchange/batch-intake.ts";
import type { LocalBatch } from "../../src/exchange/batch-ring.ts";
import type { ChannelName } from "../../src/exchange/exchange.ts";
import { layoutOf } from "../../src/exchange/layout.ts";
import { createSharedMemoryExchange } from "../../src/exchange/shared-memory.ts";
import { openKernels, useThreads } from "../../src/kernels/index.ts";
import { realClock } from "../../src/ports/clock.ts";
import { realDisk } from "../../src/ports/disk.ts";
import { hasProcessorTime, processorMs } from "../../src/ports/processor-time.ts";
import { createPipeline } from "../../src/training/loop/pipeline.ts";
import {
  createStepMeter,
  meterWords,
  type StepTimes,
  timesBetween,
} from "../../src/training/meters/step-meter.ts";
import { createDeviceState } from "../../src/training/step/device-state.ts";
import { exchangeShapeOf } from "../../src/training/topology/exchange-shape.ts";
import { ringShapeOf, topologyOf } from "../../src/training/topology/topology.ts";
import { createBackingStore } from "../../storage/tiers/ring.ts";
import { type HeapReport, startHeapMeter } from "./heap.ts";
import { overLink } from "./slow-link.ts";
import { type TierMemory, tierPlaceOf } from "./tier-memory.ts";
import { awaitSlot, endSlot, makeBatch, readBatch, type TrainWork } from "./train-work.ts";

export interface TrainThreadData {
  readonly work: TrainWork;
  readonly rank: number;
  readonly words: SharedArrayBuffer;
  readonly exchange: SharedArrayBuffer;
  /** Arrival times of the link between the devices. */
  readonly arrivals: SharedArrayBuffer;
  /** The batch ring, where a reader fills it: the participant after the devices. */
  readonly ring?: SharedArrayBuffer | undefined;
  /** The memory shared with its tier thread. */
  readonly tier?: TierMemory | undefined;
}

export interface TrainThreadReport {
  /** Milliseconds of each step. */
  readonly stepMs: readonly number[];
  /** Shares of the step by stage. */
  readonly times: StepTimes | undefined;
  /**
   * Milliseconds of processor time that this thread uses in a step: the mean of each turn without
   * its first step, which finds the caches full of another training. Empty where the system does
   * not report processor time.
   */
  readonly busyMs: readonly number[];
  /** Milliseconds of a step that the device waited for the simulated link, by channel. */
  readonly linkMs: Partial<Record<ChannelName | "gradients", number>>;
  /** Share of the bags that were read ahead and had to be sent again. */
  readonly deferredShare: number;
  /** Allocations and collections over all measured steps. */
  readonly heap: HeapReport;
}

/** More steps than any training takes. */
const stepsMax = 2 ** 30;

parentPort?.postMessage(await train(workerData as TrainThreadData));

async function train(data: TrainThreadData): Promise<TrainThreadReport> {
  const { work, rank, words, exchange: memory, arrivals, ring, tier } = data;
  const { input, devices, depth, link, warmUpSteps = 5, threads = 1 } = work;
  useThreads(threads);
  const kernels = openKernels(work.arithmetic);
  // Over a link each device is a host of its own; its bytes still move through shared memory.
  const hostOf = link && Array.from({ length: devices }, (_, host) => host);
  const topology = topologyOf(input, devices, hostOf);
  const shape = exchangeShapeOf(link === undefined ? topology : topologyOf(input, devices));
  const cells = createAtomicCells({
    words: new Int32Array(words),
    participants: devices + 1,
    participant: rank,
    generation: 1,
    deadlineMs: 600_000,
    clock: realClock,
  });
  const counters = new BigInt64Array(meterWords);
  const meter = createStepMeter(counters, realClock);
  const cellsFor = (channel: Parameters<typeof meter.cellsFor>[0]) =>
    meter.cellsFor(channel, cells);
  const place = { shape, rank, memory, cells, cellsFor, kernels };
  const direct = createSharedMemoryExchange(place);
  const { gradientLength } = topology;
  const waitedMs: Partial<Record<ChannelName | "gradients", number>> = {};
  const exchange =
    link === undefined
      ? direct
      : overLink(direct, { link, memory: arrivals, gradientLength, waitedMs });
  const belowOf = (own: ReturnType<typeof tierPlaceOf>) =>
    createBackingStore({ ...own, cells: meter.cellsFor("tiers", own.cells) });
  const { recipe } = work;
  const backing = tier && belowOf(tierPlaceOf(work, topology, rank, tier, 0));
  const device = createDeviceState({ rank, topology, recipe, kernels, exchange, backing });
  const dataset = work.cache === undefined ? undefined : openCache(work.cache, realDisk);
  const pool: LocalBatch[] = [];
  for (let i = 0; ring === undefined && i < work.batches; i++) {
    pool.push(
      dataset === undefined
        ? makeBatch(topology, rank, i, work.zipf, { share: work.overlap ?? 0, before: pool.at(-1) })
        : readBatch(topology, rank, i, dataset),
    );
  }
  const intake =
    ring === undefined
      ? poolIntake(pool)
      : createBatchIntake({
          shape: ringShapeOf(topology),
          local: { first: 0, count: devices },
          memory: ring,
          cells: cellsFor("batch"),
          cellBase: layoutOf(shape).cells,
          device: rank,
          readers: [devices],
        });
  const pipeline = createPipeline({ device, intake, depth, steps: stepsMax, meter });

  const { turns } = work;
  if (turns !== undefined) awaitSlot(turns, 0, devices);
  let step = 0;
  for (; step < warmUpSteps; step++) await pipeline.run(step, stepsMax, () => -1);
  for (const name of Object.keys(waitedMs)) waitedMs[name as ChannelName] = 0;
  const from = { devices: [Array.from(counters, Number)], reading: [] };
  const run = (asked: () => number) => pipeline.run(step++, stepsMax, asked);
  const measured = await trainTurns(work, rank, run);
  const to = { devices: [Array.from(counters, Number)], reading: [] };
  const times = timesBetween([{ from, to }]);
  const { read, deferred } = device.deferred.counts;
  const steps = measured.stepMs.length;
  const linkMs = Object.fromEntries(
    Object.entries(waitedMs).map(([name, ms]) => [name, ms / steps]),
  );
  return { ...measured, times, linkMs, deferredShare: deferred / Math.max(1, read) };
}

/** Trains until the steps or the seconds are over, in turns if the work has `turns`. */
async function trainTurns(
  { devices, seconds, steps, turns }: TrainWork,
  rank: number,
  run: (asked: () => number) => Promise<{ readonly stopAfter: number }>,
): Promise<Omit<TrainThreadReport, "times" | "linkMs" | "deferredShare">> {
  const stepMs: number[] = [];
  const busy = startBusyMeter(turns === undefined ? 0 : 1);
  const heap = startHeapMeter();
  const startMs = performance.now();
  // Device 0 requests the end as it would request a pause: all devices stop after the same step,
  // which is the next one if that has already begun.
  const requestedPause = () => {
    const isOver = performance.now() - startMs > 1000 * seconds;
    return rank === 0 && (isOver || stepMs.length + 2 >= steps) ? 0 : -1;
  };
  busy.begin();
  for (let isOver = false; !isOver; ) {
    const beginMs = performance.now();
    const { stopAfter } = await run(requestedPause);
    isOver = stopAfter >= 0;
    stepMs.push(performance.now() - beginMs);
    heap.look();
    busy.step();
    if (turns === undefined || (!isOver && stepMs.length % turns.steps > 0)) continue;
    busy.end();
    endSlot(turns);
    if (isOver) break;
    awaitSlot(turns, stepMs.length / turns.steps, devices);
    busy.begin();
  }
  busy.end();
  return { stepMs, busyMs: busy.ms, heap: heap.stop() };
}

/** Meters the mean processor time of a turn's steps, without the first `cold` ones. */
function startBusyMeter(cold: number) {
  const toldMs = () => (hasProcessorTime() ? processorMs() : undefined);
  const ms: number[] = [];
  let [steps, from]: [number, number | undefined] = [0, undefined];
  return {
    ms,
    begin() {
      steps = 0;
      if (cold === 0) from = toldMs();
    },
    step() {
      if (++steps === cold) from = toldMs();
    },
    end() {
      const to = toldMs();
      if (from !== undefined && to !== undefined && steps > cold)
        ms.push((to - from) / (steps - cold));
      from = undefined;
    },
  };
}

/** An intake that cycles through prepared batches. */
function poolIntake(pool: readonly LocalBatch[]): BatchIntake {
  let given = 0;
  const next = () => {
    const found = pool[given++ % pool.length];
    if (found === undefined) throw new RangeError("The pool is empty");
    return found;
  };
  return {
    next: async () => next(),
    nextIfThere: next,
    waiting: () => 1,
    release() {},
    grant() {},
  };
}

// A device's thread of the benches that compare variants of a job: trains each variant in turn on
// the same batches, over its own exchange.

import { parentPort, workerData } from "node:worker_threads";
import { Zipf } from "../../src/data/synthetic/zipf.ts";
import { createAtomicCells } from "../../src/exchange/atomic-cells.ts";
import type { LocalBatch } from "../../src/exchange/batch-ring.ts";
import type { Exchange } from "../../src/exchange/exchange.ts";
import { createSharedMemoryExchange } from "../../src/exchange/shared-memory.ts";
import { openKernels } from "../../src/kernels/index.ts";
import { realClock } from "../../src/ports/clock.ts";
import { hasProcessorTime, processorMs } from "../../src/ports/processor-time.ts";
import { RandomStream } from "../../src/ports/random.ts";
import { noTrace } from "../../src/training/meters/step-trace.ts";
import { createDeviceState } from "../../src/training/step/device-state.ts";
import { trainStep } from "../../src/training/step/step.ts";
import { exchangeShapeOf } from "../../src/training/topology/exchange-shape.ts";
import { samplesOf, type TopologyInput, topologyOf } from "../../src/training/topology/topology.ts";
import { optimizerOf } from "./optimizers.ts";

export interface VariantsData {
  readonly rank: number;
  readonly devices: number;
  readonly zipf: number;
  readonly rounds: number;
  readonly variants: readonly {
    readonly input: TopologyInput;
    readonly words: SharedArrayBuffer;
    readonly exchange: SharedArrayBuffer;
  }[];
}

/** A report for each variant, in order. */
export type VariantsReport = readonly {
  /** Milliseconds of a step, in each round; and of these, of the device's processor. */
  readonly stepMs: readonly number[];
  readonly busyMs: readonly number[];
  /** Milliseconds of each stage of a step, in each round. */
  readonly stageMs: readonly Readonly<Record<string, number>>[];
  /** Bytes that this device sent in a step. */
  readonly sentBytes: number;
}[];

const stepsOfRound = 10;
const batches = 8;

const { rank, devices, zipf, rounds, variants } = workerData as VariantsData;
const runs = variants.map(({ input, words, exchange: memory }) => {
  const topology = topologyOf(input, devices);
  const kernels = openKernels("auto");
  const cells = createAtomicCells({
    words: new Int32Array(words),
    participants: devices,
    participant: rank,
    generation: 1,
    deadlineMs: 600_000,
    clock: realClock,
  });
  const place = { shape: exchangeShapeOf(topology), rank, memory, cells, kernels };
  const exchange = createSharedMemoryExchange(place);
  const recipe = {
    optimizer: optimizerOf({ kind: "adagrad" }, { kind: "rowWiseAdagrad" }),
    seed: 727,
  };
  const meter = createStageMeter();
  const { trace } = meter;
  const device = createDeviceState({ rank, topology, recipe, kernels, exchange, trace });
  const pool = Array.from({ length: batches }, (_, i) => makeBatch(input, i));
  const [stepMs, busyMs]: [number[], number[]] = [[], []];
  return { device, pool, meter, stepMs, busyMs, stageMs: [] as Record<string, number>[], steps: 0 };
});

for (let round = -1; round < rounds; round++) {
  for (const run of runs) {
    const busyFrom = busyNow();
    const startMs = performance.now();
    run.meter.take();
    for (let i = 0; i < stepsOfRound; i++, run.steps++) {
      const batch = run.pool[run.steps % batches];
      if (batch !== undefined) await trainStep(run.device, batch, run.steps, -1);
    }
    const stages = run.meter.take();
    if (round < 0) continue; // Warm-up.
    run.stepMs.push((performance.now() - startMs) / stepsOfRound);
    run.busyMs.push((busyNow() - busyFrom) / stepsOfRound);
    run.stageMs.push(stages);
  }
}
const report: VariantsReport = runs.map(({ device, stepMs, busyMs, stageMs, steps }) => {
  return { stepMs, busyMs, stageMs, sentBytes: sentBy(device.exchange) / steps };
});
parentPort?.postMessage(report);

function busyNow(): number {
  return hasProcessorTime() ? processorMs() : performance.now();
}

/** A trace that adds up the time of each stage of a round of steps. */
function createStageMeter() {
  let ms: Record<string, number> = {};
  let [now, fromMs] = ["", 0];
  const enter = (_step: number | undefined, stage: string) => {
    const toMs = performance.now();
    ms[now] = (ms[now] ?? 0) + (toMs - fromMs) / stepsOfRound;
    [now, fromMs] = [stage, toMs];
  };
  return {
    trace: { ...noTrace, enter },
    /** Ends the round. Returns the milliseconds of each stage of its steps. */
    take() {
      enter(undefined, "");
      const { "": _between, ...stages } = ms;
      ms = {};
      return stages;
    },
  };
}

function sentBy({ sent }: Exchange): number {
  return Object.values(sent).reduce((sum, { shared, wire }) => sum + shared + wire, 0);
}

/** Makes a batch of full bags; popular ids are scattered over the rows, as hashed ids are. */
function makeBatch(input: TopologyInput, index: number): LocalBatch {
  const { model, idsMax, batchSize } = input;
  const { count: samples } = samplesOf(topologyOf(input, devices), rank, batchSize);
  const random = new RandomStream(727 + rank, index);
  const ids = model.tables.flatMap(({ rows }, i) => {
    const popularity = new Zipf(rows, zipf);
    const length = samples * (idsMax[i] ?? 0);
    return Array.from({ length }, () => (popularity.draw(() => random.uniform()) * 7919) % rows);
  });
  return {
    ticket: index,
    samples,
    batchSamples: batchSize,
    idCount: ids.length,
    dense: Float32Array.from({ length: samples * model.dense }, () => random.uniform()),
    labels: Float32Array.from({ length: samples }, () => random.below(2)),
    lengths: Int32Array.from(idsMax.flatMap((length) => new Array<number>(samples).fill(length))),
    ids: Int32Array.from(ids),
  };
}

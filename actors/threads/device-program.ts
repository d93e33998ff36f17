// The program of a device's thread: restores its part of the model, then executes commands.
//
// Takes  run { toStep, lossSum, plateau } · evaluate · save { cut } · end; dump, after a failure
// Emits  ready · reached · evaluated · cut · dumped
//
// Invariants
//   D1. Weights change only in `run`, in `trainStep`: commands find the model between two steps.
//   D2. A failed step is never retried: the thread ends, and its memory with it (law 3). If the job
//       allows partial recovery, the thread first writes its state (surviving-state.ts).

import { scoredLabelsOf } from "../../src/data/targets.ts";
import type { BackingStore } from "../../src/embedding/rows/backing-store.ts";
import type { KeptTile, RowKeeper } from "../../src/embedding/rows/row-keeper.ts";
import { checkShares } from "../../src/embedding/tables/row-decay.ts";
import { checkAveragedSteps } from "../../src/embedding/tables/row-state.ts";
import { GenerationAbortedError, NonFiniteLossError } from "../../src/errors/errors.ts";
import { type BatchIntake, createBatchIntake } from "../../src/exchange/batch-intake.ts";
import { createPipeWriter } from "../../src/exchange/byte-pipe.ts";
import type { Cells } from "../../src/exchange/cells.ts";
import { openFlightWaits } from "../../src/exchange/flights.ts";
import { createSharedMemoryExchange } from "../../src/exchange/shared-memory.ts";
import type { Kernels } from "../../src/kernels/contract/kernels.ts";
import type { Clock } from "../../src/ports/clock.ts";
import type { Disk } from "../../src/ports/disk.ts";
import type { Log } from "../../src/ports/log.ts";
import { tableOfPart } from "../../src/training/checkpoint/part-names.ts";
import { type CutPart, createCutter } from "../../src/training/checkpoint/parts.ts";
import { scoreAll } from "../../src/training/loop/evaluation.ts";
import { evaluateScores, type Metrics } from "../../src/training/loop/metrics.ts";
import { createPipeline, type Pipeline } from "../../src/training/loop/pipeline.ts";
import { windowStepsMax } from "../../src/training/loop/schedule.ts";
import { createStepMeter, type StepMeter } from "../../src/training/meters/step-meter.ts";
import {
  createStepTrace,
  type StepTrace,
  type TracedStep,
} from "../../src/training/meters/step-trace.ts";
import { writeHbm } from "../../src/training/meters/tier-column.ts";
import { writeCurves } from "../../src/training/planning/tier-advice.ts";
import { createDeviceState, type DeviceState } from "../../src/training/step/device-state.ts";
import { idCountsOf, type TableIdCounts } from "../../src/training/step/dynamic-ids.ts";
import { repairedIdsOf } from "../../src/training/step/step-plan.ts";
import type { RestoreSource } from "../../storage/checkpoints/replicas/restore-source.ts";
import { sendItem } from "../../storage/checkpoints/store/part-stream.ts";
import type { SavedPart } from "../../storage/checkpoints/store/part-writer.ts";
import { createBackingStore } from "../../storage/tiers/ring.ts";
import { type Generation, type Progress, pipePlaceOf, progressOver } from "./generation-memory.ts";
import {
  dealingOf,
  type GenerationSpec,
  hostPlaceOf,
  mayRecoverPartly,
} from "./generation-spec.ts";
import { timelineOf } from "./host-timelines.ts";
import { keeperOf, type RowsToKeep } from "./kept-rows.ts";
import { restore, sourceOf } from "./restore-device.ts";
import { writeSurvivingState } from "./surviving-state.ts";

export type DeviceCommand =
  | {
      readonly type: "run";
      readonly toStep: number;
      readonly lossSum: number;
      /** Factor that plateaus have applied to the learning rates. */
      readonly plateau: number;
    }
  | { readonly type: "evaluate"; readonly part: "evaluation" | "test" }
  /** `to`: the host that takes the parts over, because this one leaves. */
  | {
      readonly type: "save";
      readonly cut: number;
      readonly isBaseline: boolean;
      readonly to?: number | undefined;
    }
  /** `isFirst`: this device also writes the state replicated on all devices. */
  | { readonly type: "dump"; readonly isFirst: boolean }
  | { readonly type: "end" };

/** Bytes of the checkpoint: from the memory of hosts, from the store, and of rows kept in place. */
export interface RestoredBytes extends Readonly<RestoreSource["restored"]> {
  readonly keptBytes: number;
}

export type DeviceReport =
  /** The memory of its rows, which outlives the thread; no row changes before `ready`. */
  | { readonly type: "rows"; readonly tiles: readonly KeptTile[] }
  | {
      readonly type: "ready";
      readonly step: number;
      readonly arithmetic: string;
      /** The instruction set of its kernels. */
      readonly set: string;
      readonly restored: RestoredBytes;
    }
  | {
      readonly type: "reached";
      readonly step: number;
      /** `lossSum` of the command plus the losses of the window's steps, added in step order. */
      readonly lossSum: number;
      readonly steps: number;
      readonly isPaused: boolean;
      /** Per table of the job: ids that this device clamped or hashed in these steps. */
      readonly repairedIds: readonly number[];
      /** Per table: rows on this device that a step read with an update pending. */
      readonly staleRows: readonly number[];
      /** Dynamic ids with rows on this device: admitted, evicted, dropped. */
      readonly dynamicIds: TableIdCounts;
    }
  /** Metrics on device 0; null on the others. */
  | { readonly type: "evaluated"; readonly metrics: Metrics | null }
  | {
      readonly type: "dumped";
      readonly step: number;
      readonly steps: number;
      readonly parts: readonly SavedPart[];
    }
  /** The device has passed its parts to the writer; training stalled for `stallMs`. */
  | { readonly type: "cut"; readonly cut: number; readonly stallMs: number };

/** The ports of a device's program. */
export interface DevicePorts {
  readonly kernels: Kernels;
  readonly cells: Cells;
  readonly disk: Disk;
  /** For the step meter only. */
  readonly clock: Clock;
  readonly log: Log["write"];
  /** Reports the trace of a step. */
  traced(step: TracedStep): void;
  /** Waits for the next command, in the same way as the cells wait. */
  nextCommand(): Promise<DeviceCommand>;
  /** Waits for the dump command after the generation has failed; undefined: none comes. */
  dump(): Promise<Extract<DeviceCommand, { type: "dump" }> | undefined>;
  report(report: DeviceReport): void;
}

export async function runDevice(
  generation: Generation,
  rank: number,
  toKeep: RowsToKeep,
  ports: DevicePorts,
): Promise<void> {
  const { kernels, cells, report } = ports;
  const { spec, layout, memory } = generation;
  const { topology, exchangeShape, exchangeCells, ringShape, readers, bridge, schedule } = layout;
  const { job } = spec;
  const progress = progressOver(memory, topology.devices);
  const { clock, traced } = ports;
  const timeline = timelineOf(generation, "device", rank);
  const flights = openFlightWaits(memory.flights);
  const meter = createStepMeter(progress.metersOf(rank), clock, { flights, timeline });
  const exchange = createSharedMemoryExchange({
    shape: exchangeShape,
    rank,
    memory: memory.exchange,
    cells,
    cellsFor: (channel) => meter.cellsFor(channel, cells),
    kernels,
    bridge,
  });
  checkShares(job.optimizer.sparse, job.model.tables, schedule.steps);
  checkAveragedSteps(job.optimizer.sparse, schedule.steps);
  const recipe = { optimizer: job.optimizer, seed: job.seed, loss: job.loss };
  const backing = backingOf(generation, rank, meter.cellsFor("tiers", cells));
  const hasIncrements = job.checkpoint.differential !== "none";
  const everySteps = spec.tracedEvery ?? 0;
  const trace = createStepTrace({ everySteps, clock, report: traced, timeline });
  const heat = new Float64Array(memory.heat);
  const keeper = keeperOf(spec, rank, toKeep);
  const own = { rank, topology, recipe, kernels, exchange, backing, hasIncrements, trace, heat };
  const restoresFromMs = clock.now();
  const device = createDeviceState({ ...own, keeper });
  const madeMs = Math.round(clock.now() - restoresFromMs);
  const intake = createBatchIntake({
    shape: ringShape,
    memory: memory.ring,
    cells: meter.cellsFor("batch", cells),
    cellBase: exchangeCells,
    local: hostPlaceOf(spec, rank),
    dealing: dealingOf(spec),
    device: rank,
    readers,
  });
  const kept = (await backing?.kept()) ?? new Set<number>();
  const source = sourceOf(generation, ports);
  const inPlace = new Set([...kept, ...(keeper?.inPlace ?? [])]);
  if (source !== undefined) await restore(device, spec, source, inPlace);
  const readMs = Math.round(clock.now() - restoresFromMs) - madeMs;
  const save = createSaves(device, generation, cells, { kept, keeper, log: ports.log });
  progress.steps[rank] = spec.fromStep;
  device.trained.steps = spec.fromStep;
  const steps = schedule.steps - spec.fromStep;
  const { depth } = job.pipeline;
  const pipeline = createPipeline({ device, intake, depth, steps, meter });
  const watch = watchTiers(generation, device);
  keeper?.begin();
  report({ type: "rows", tiles: keeper?.tiles() ?? [] });
  const keptBytes = keeper?.keptBytes ?? 0;
  const restored = { ...(source?.restored ?? { memoryBytes: 0, storeBytes: 0 }), keptBytes };
  const { arithmetic, set } = kernels;
  const ready = { step: spec.fromStep, arithmetic, set, restored };
  const times = { madeMs, readMs, restoreMs: Math.round(clock.now() - restoresFromMs) };
  ports.log("info", "ready", { ...ready, ...times });
  report({ type: "ready", ...ready });

  const serving = { device, intake, pipeline, progress, meter, trace, save, watch };
  try {
    await serve(serving, spec, ports);
  } catch (error) {
    if (!(error instanceof GenerationAbortedError) || !mayRecoverPartly(spec)) throw error;
    const requested = await ports.dump();
    if (requested === undefined) throw error;
    const done = Atomics.load(progress.steps, rank);
    const how = { step: done, isFirst: requested.isFirst, disk: ports.disk };
    const surviving = await writeSurvivingState(device, generation, how);
    report({ type: "dumped", step: done, steps: schedule.steps, parts: surviving });
  }
}

/** Executes commands one by one, until the `end` command. */
async function serve(
  { device, intake, pipeline, progress, meter, trace, save, watch }: Serving,
  spec: GenerationSpec,
  { nextCommand, log, report }: DevicePorts,
): Promise<void> {
  let step = spec.fromStep;
  for (;;) {
    const command = await nextCommand();
    switch (command.type) {
      case "run": {
        const window = await runWindow(device, pipeline, progress, step, command, watch);
        step = window.step;
        log("debug", "reached", { step, steps: window.steps, isPaused: window.isPaused });
        report({ type: "reached", ...window });
        break;
      }
      case "evaluate": {
        const { part } = command;
        const scores = await scoreAll(device, intake, spec.data[part]?.samples ?? 0, part);
        const metrics =
          scores === undefined
            ? null
            : evaluateScores(
                scores,
                scoredLabelsOf(spec.job.data),
                spec.job.evaluation?.thresholds,
              );
        report({ type: "evaluated", metrics });
        break;
      }
      case "save": {
        const { cut } = command;
        const stallMs = await meter.cut(() => trace.cut(cut, () => save(command)));
        log("debug", "cut", { step: cut, stallMs });
        report({ type: "cut", cut, stallMs });
        break;
      }
      case "dump":
      case "end":
        return;
      default:
        command satisfies never;
    }
  }
}

/** The parts of a device that commands use. */
interface Serving {
  readonly device: DeviceState;
  readonly intake: BatchIntake;
  readonly pipeline: Pipeline;
  readonly progress: Progress;
  readonly meter: StepMeter;
  readonly trace: StepTrace;
  readonly save: ReturnType<typeof createSaves>;
  /** Writes the counters of its tiers, which the host samples. */
  readonly watch: () => void;
}

function watchTiers({ memory: { curves, columns } }: Generation, device: DeviceState): () => void {
  const [curve, column] = [curves[device.rank], columns[device.rank]];
  if (curve === undefined || column === undefined) return () => {};
  const words = { curve: new Float64Array(curve), column: new Float64Array(column) };
  const cached = [device.slab, ...device.distinct.slabs].flatMap((slab) => slab.cached);
  return () => {
    writeCurves(device, words.curve);
    writeHbm(words.column, cached);
  };
}

/** The backing store, at the other end of this device's tier ring; undefined: it has no tiers. */
function backingOf(
  { layout: { tierRings, tierOf, tierCellBase }, memory: { tiers } }: Generation,
  rank: number,
  cells: Cells,
): BackingStore | undefined {
  const [shape, memory] = [tierRings[rank], tiers[rank]];
  if (shape === undefined || memory === undefined) return undefined;
  const place = { shape, memory, cells, cellBase: tierCellBase(rank), peer: tierOf(rank) };
  return createBackingStore(place);
}

/** Trains from `from` to `toStep`, or to the requested pause. */
async function runWindow(
  device: DeviceState,
  pipeline: Pipeline,
  progress: Progress,
  from: number,
  { toStep, lossSum: lossesBefore, plateau }: Extract<DeviceCommand, { type: "run" }>,
  watch: () => void,
) {
  device.plateau.share = plateau;
  const repairedBefore = repairedIdsOf(device);
  const staleBefore = [...device.staleRows.counts];
  const idsBefore = idCountsOf(device);
  let lossSum = lossesBefore;
  let step = from;
  let isPaused = false;
  const pauseStep = () => (device.rank === 0 ? Atomics.load(progress.pause, 0) : -1);
  while (step < toStep && !isPaused) {
    const { loss, stopAfter } = await pipeline.run(step, toStep, pauseStep);
    if (!Number.isFinite(loss)) throw new NonFiniteLossError(step, loss);
    lossSum += loss;
    if (device.rank === 0) progress.losses[step % windowStepsMax] = loss;
    step++;
    watch();
    Atomics.store(progress.steps, device.rank, step);
    isPaused = stopAfter >= 0 && step >= stopAfter;
  }
  return {
    step,
    lossSum,
    steps: step - from,
    isPaused: isPaused && step < toStep,
    repairedIds: repairedIdsOf(device).map((ids, table) => ids - (repairedBefore[table] ?? 0)),
    staleRows: device.staleRows.counts.map((rows, table) => rows - (staleBefore[table] ?? 0)),
    dynamicIds: countsSince(idCountsOf(device), idsBefore),
  };
}

function countsSince(now: TableIdCounts, before: TableIdCounts): TableIdCounts {
  const since = (name: keyof TableIdCounts) =>
    now[name].map((count, table) => count - (before[name][table] ?? 0));
  return {
    admitted: since("admitted"),
    evicted: since("evicted"),
    dropped: since("dropped"),
  };
}

const undoLogWasFull =
  "the undo log was full before this cut, so that a recovery would have read all rows of " +
  "the device; raise checkpoint.undoBytes, or take checkpoints more often";

type Cutting = Extract<DeviceCommand, { type: "save" }>;

/**
 * Passes the parts of this device to its writer, cut by cut. `kept`: shards that a durable tier
 * kept, for which it is unknown which rows changed since the baseline.
 */
function createSaves(
  device: DeviceState,
  { spec, ...generation }: Generation,
  cells: Cells,
  by: {
    readonly kept: ReadonlySet<number>;
    readonly keeper: RowKeeper | undefined;
    readonly log: Log["write"];
  },
) {
  const { manifest, job } = spec;
  const { keeper } = by;
  const { inPlace, unmarked } = keeper ?? { inPlace: new Set<number>(), unmarked: [] };
  const kept = new Set([...by.kept, ...unmarked]);
  const { differential } = job.checkpoint;
  const end = { cells, isWriter: false };
  const pipe = createPipeWriter(pipePlaceOf({ spec, ...generation }, device.rank, end));
  const restored = manifest?.parts ?? [];
  const cutter = createCutter(device, { differential, restored, kept, inPlace });
  const hasWholeRows = (parts: readonly CutPart[]) =>
    parts.some(({ name, isWhole }) => isWhole && tableOfPart(name, job.model.tables) !== undefined);
  return async ({ cut, isBaseline, to }: Cutting): Promise<void> => {
    await pipe.drained();
    pipe.rewind();
    const parts = cutter(isBaseline);
    keeper?.beginCut(hasWholeRows(parts));
    for (const part of parts) {
      const { name, isWhole } = part;
      await sendItem(pipe, { kind: "part", cut, name, isWhole, to });
      for await (const bytes of part.bytes()) await sendItem(pipe, { kind: "bytes", bytes });
      await sendItem(pipe, { kind: "leaves", leaves: await part.leaves() });
    }
    const wasFull = keeper?.endCut({ generation: spec.generation, cut }) === true;
    if (wasFull) by.log("warn", undoLogWasFull, { step: cut });
    await sendItem(pipe, { kind: "cut", cut });
  };
}

// The assembly: all that the threads of one generation are told, and the memory that they share. A
// generation gets new memory, always: what an older thread still writes, nobody reads (law 3).

import type { Clock } from "../src/clock.ts";
import { createAtomicCells } from "../src/exchange/atomic-cells.ts";
import { type RingShape, ringLayoutOf } from "../src/exchange/batch-ring.ts";
import { abortCells, cellWords, type Cells } from "../src/exchange/cells.ts";
import { layoutOf } from "../src/exchange/shared-memory.ts";
import type { JobSpec } from "../src/job.ts";
import { scoresBytes } from "../src/training/evaluation.ts";
import { type Schedule, scheduleOf, windowStepsMax } from "../src/training/schedule.ts";
import {
  exchangeShapeOf,
  ringShapeOf,
  type Topology,
  topologyOf,
} from "../src/training/topology.ts";
import type { Manifest } from "../storage/checkpoint-store.ts";

/** One dataset as the readers open it. */
export interface DatasetPlan {
  readonly path: string;
  /** Samples of the part that is read. */
  readonly samples: number;
  /** Which part of the file, where it is split. */
  readonly split?: { readonly fraction: number; readonly part: "train" | "heldOut" } | undefined;
}

/** The data of a run, prepared. */
export interface DataPlan {
  readonly training: DatasetPlan;
  readonly evaluation?: DatasetPlan | undefined;
  /** Longest bag of each feature, over both. */
  readonly idsMax: readonly number[];
  /** Lines that were left out, and the first of them. */
  readonly quarantined: number;
  readonly quarantine: readonly { file: string; line: number; reason: string }[];
  /** Best AUC that any model can reach on generated data. */
  readonly bestAuc?: number | undefined;
}

/** What a generation is made of. Plain data: it travels over the wire and into threads. */
export interface Assembly {
  readonly run: string;
  readonly generation: number;
  readonly job: JobSpec;
  readonly devices: number;
  readonly data: DataPlan;
  /** Steps done at the cut from which it goes on; 0 where it starts. */
  readonly fromStep: number;
  /** The checkpoint of that cut. */
  readonly manifest?: Manifest | undefined;
}

/** Shared memory of one generation on one host. */
export interface GenerationMemory {
  readonly words: SharedArrayBuffer;
  readonly exchange: SharedArrayBuffer;
  readonly ring: SharedArrayBuffer;
  readonly scores: SharedArrayBuffer;
  readonly progress: SharedArrayBuffer;
}

/** What every thread derives from the assembly, each for itself. */
export interface Derived {
  readonly topology: Topology;
  readonly schedule: Schedule;
  readonly ringShape: RingShape;
  readonly exchangeCells: number;
  readonly participants: number;
  readonly readers: readonly number[];
}

export function derive(assembly: Assembly): Derived {
  const { job, data, devices } = assembly;
  const { batchSize, passes } = job.data;
  const input = { model: job.model, batchSize, slices: job.slices, idsMax: data.idsMax };
  const topology = topologyOf(input, devices);
  const readers = Array.from({ length: job.readers }, (_, reader) => devices + reader);
  return {
    topology,
    schedule: scheduleOf({ samples: data.training.samples, batchSize, passes }),
    ringShape: ringShapeOf(topology),
    exchangeCells: layoutOf(exchangeShapeOf(topology)).cells,
    participants: devices + job.readers,
    readers,
  };
}

export function allocate(assembly: Assembly): GenerationMemory {
  const { topology, ringShape, exchangeCells, participants } = derive(assembly);
  const ring = ringLayoutOf(ringShape);
  const words = cellWords(participants, exchangeCells + ring.cells);
  const memory = {
    words: new SharedArrayBuffer(4 * words),
    exchange: new SharedArrayBuffer(layoutOf(exchangeShapeOf(topology)).bytes),
    ring: new SharedArrayBuffer(ring.bytes),
    scores: new SharedArrayBuffer(Math.max(8, scoresBytes(assembly.data.evaluation?.samples ?? 0))),
    progress: new SharedArrayBuffer(progressBytes(assembly.devices)),
  };
  progressOver(memory, assembly.devices).pause.fill(-1);
  return memory;
}

/** Releases everybody who waits, and whoever will: the generation is over. */
export function abort(assembly: Assembly, memory: GenerationMemory): void {
  abortCells(new Int32Array(memory.words), derive(assembly).participants);
}

/** The cells of one participant. `deadlineMs` Infinity: an idle reader may wait for ever. */
export function openCells(
  assembly: Assembly,
  memory: GenerationMemory,
  participant: number,
  options: { readonly clock: Clock; readonly deadlineMs: number },
): Cells {
  return createAtomicCells({
    words: new Int32Array(memory.words),
    participants: derive(assembly).participants,
    participant,
    generation: assembly.generation,
    ...options,
  });
}

/** Progress as counters in shared memory: devices count, the host samples. */
export interface Progress {
  /** Steps done, one word for each device. */
  readonly steps: Int32Array;
  /** Word 0: pause after this step; -1: no pause is asked for. */
  readonly pause: Int32Array;
  /** Loss of step n at n % windowStepsMax, written by device 0. */
  readonly losses: Float64Array;
}

function progressBytes(devices: number): number {
  return 8 * windowStepsMax + 4 * (devices + 1);
}

export function progressOver(memory: GenerationMemory, devices: number): Progress {
  const { progress } = memory;
  return {
    losses: new Float64Array(progress, 0, windowStepsMax),
    steps: new Int32Array(progress, 8 * windowStepsMax, devices),
    pause: new Int32Array(progress, 8 * windowStepsMax + 4 * devices, 1),
  };
}

// The generation memory: shared memory of the threads of one generation on one host. Each
// generation gets new memory, so that late writes of an older generation's thread are never read
// (law 3).

import { deserialize, serialize } from "node:v8";
import { curveWords } from "../../src/embedding/rows/miss-curve.ts";
import { createAtomicCells, type Sleep } from "../../src/exchange/atomic-cells.ts";
import { ringLayoutOf } from "../../src/exchange/batch-ring.ts";
import type { PipePlace } from "../../src/exchange/byte-pipe.ts";
import {
  abortCells,
  isAborted as areAborted,
  type Cells,
  cellWords,
  holdCells,
  ringDoorbell,
} from "../../src/exchange/cells.ts";
import { flightBytes } from "../../src/exchange/flights.ts";
import { layoutOf } from "../../src/exchange/layout.ts";
import { shelfBytes } from "../../src/exchange/splits/split-shelves.ts";
import { openWaitNote, waitNotesBytes } from "../../src/exchange/wait-notes.ts";
import type { Clock } from "../../src/ports/clock.ts";
import { atOnce, type Steps } from "../../src/ports/turns.ts";
import { windowStepsMax } from "../../src/training/loop/schedule.ts";
import { heatWords } from "../../src/training/meters/shard-heat.ts";
import { meterWords } from "../../src/training/meters/step-meter.ts";
import { columnWords } from "../../src/training/meters/tier-column.ts";
import {
  type NamedFile,
  ReplicaCache,
  replicaBytesMax,
} from "../../storage/checkpoints/replicas/replica-cache.ts";
import type { ReplicasAtHand } from "../../storage/checkpoints/replicas/restore-source.ts";
import { tierRingBytes } from "../../storage/tiers/ring-slots.ts";
import { boardBytes, boardOf } from "./data/reader-board.ts";
import {
  filesOfHost,
  type GenerationLayout,
  layingOut,
  layoutOfGeneration,
  type ParticipantPlaces,
} from "./generation-layout.ts";
import { type GenerationSpec, type HostPlace, hasBuddies, shelvesOf } from "./generation-spec.ts";
import { addingUp, hostMemoryOf, sharesOf } from "./host-memory.ts";
import { timelinesBytes } from "./host-timelines.ts";
import { KeptRows, type RowLease } from "./kept-rows.ts";

/** A generation on one thread: its spec, its layout, and its memory. */
export interface Generation {
  readonly spec: GenerationSpec;
  /** Computed on each thread: it has functions, which cannot be sent between threads. */
  readonly layout: GenerationLayout;
  readonly memory: GenerationMemory;
}

export interface HostedGeneration extends Generation {
  /** The kept rows of each device of the host, in the order of ranks. */
  readonly leases: readonly RowLease[];
}

/** Shared memory of one generation on one host: what its own devices receive, and send. */
export interface GenerationMemory {
  /** The spec, serialised once for all threads of the host. */
  readonly spec: SharedArrayBuffer;
  readonly places: ParticipantPlaces;
  /** The host's index among the hosts of the generation. */
  readonly position: number;
  readonly words: SharedArrayBuffer;
  readonly exchange: SharedArrayBuffer;
  readonly ring: SharedArrayBuffer;
  readonly progress: SharedArrayBuffer;
  /** Notes of the longer waits of its threads (src/exchange/wait-notes.ts). */
  readonly waits: SharedArrayBuffer;
  /** Tier ring of each local device that has tiers, by rank (storage/tiers). */
  readonly tiers: Readonly<Record<number, SharedArrayBuffer>>;
  /** Pipe from each local device to its writer, by rank. */
  readonly saves: Readonly<Record<number, SharedArrayBuffer>>;
  /**
   * Counts for the miss-ratio curves of each local device that has tiers, by rank
   * (src/training/planning/tier-advice.ts).
   */
  readonly curves: Readonly<Record<number, SharedArrayBuffer>>;
  /**
   * Counters of the rows in each tier, per local device that has tiers, by rank, shard by shard of
   * its ring (src/training/meters/tier-column.ts).
   */
  readonly columns: Readonly<Record<number, SharedArrayBuffer>>;
  /** Ids looked up per shard of the job, counted by the device that holds it (shard-heat.ts). */
  readonly heat: SharedArrayBuffer;
  /** Board of this host's readers: commands and counters (data/reader-board.ts). */
  readonly readers: SharedArrayBuffer;
  /**
   * Splits from preprocessing workers of this host to its readers
   * (src/exchange/splits/split-shelves.ts).
   */
  readonly splits: SharedArrayBuffer;
  /** With several hosts: times of flights to this host, and its waits (src/exchange/flights.ts). */
  readonly flights?: SharedArrayBuffer;
  /** The timelines of its threads (host-timelines.ts). */
  readonly timelines: SharedArrayBuffer;
  readonly replicas: ReplicasAtHand;
  /** Limit on the replicas that a host has in memory. */
  readonly replicaBytes: number;
}

/** The layout and memory sizes that a host computes before it creates a generation. */
export interface HostLayout {
  readonly layout: GenerationLayout;
  /** The spec, for its threads. */
  readonly spec: SharedArrayBuffer;
}

/** Lays out a generation on its host, and adds up its memory (`hostMemoryOf`). */
export function* layingOutHost(spec: GenerationSpec, place: HostPlace): Steps<HostLayout> {
  const layout = yield* layingOut(spec, place.position);
  yield* addingUp(spec.job, layout, place);
  yield;
  return { layout, spec: sharedSpec(spec) };
}

/**
 * Creates a generation on its host, with new memory. `held`: checkpoint parts and rows that the
 * host has in memory.
 */
export function createGeneration(
  spec: GenerationSpec,
  place: HostPlace,
  held: HeldByHost = { replicas: new ReplicaCache(0), rows: new KeptRows(), memoryBytes: 0 },
  laidOut: HostLayout = atOnce(layingOutHost(spec, place)),
): HostedGeneration {
  const { layout } = laidOut;
  const { undoBytes, pipeBytes, replicaBytes } = sharesOf(spec, layout, place, held.memoryBytes);
  if (held.memoryBytes > 0) held.replicas.limit(replicaBytes);
  const leases = held.rows.lend(spec, layout, place, undoBytes);
  const memory = allocate(spec, laidOut, place, { ...held, leases, pipeBytes });
  return { spec, layout, memory, leases };
}

/** Replicas and rows that a host keeps from one generation of a run to the next. */
export interface HeldByHost {
  readonly replicas: ReplicaCache;
  readonly rows: KeptRows;
  /** Memory that its process may use. */
  readonly memoryBytes: number;
}

/** Opens a generation, created by the host, on another thread. */
export function openGeneration({ memory }: Pick<Generation, "memory">): Generation {
  const spec = specIn(memory);
  return { spec, layout: layoutOfGeneration(spec, memory.position, memory.places), memory };
}

/** The spec of a generation, as its host has serialised it. */
export function specIn({ spec }: Pick<GenerationMemory, "spec">): GenerationSpec {
  return deserialize(new Uint8Array(new Uint8Array(spec)));
}

/** With 10,000 tables a spec has megabytes: it is not cloned for each thread on the main thread. */
export function sharedSpec(spec: GenerationSpec): SharedArrayBuffer {
  const bytes = serialize(spec);
  const shared = new SharedArrayBuffer(bytes.length);
  new Uint8Array(shared).set(bytes);
  return shared;
}

function allocate(
  spec: GenerationSpec,
  { layout, spec: shared }: HostLayout,
  place: HostPlace,
  held: {
    readonly replicas: ReplicaCache;
    readonly leases: readonly RowLease[];
    readonly pipeBytes: number;
  },
): GenerationMemory {
  const { first, count } = place;
  const { exchangeShape, ringShape, cells, participants, tierRings, topology } = layout;
  const { replicas, leases, pipeBytes } = held;
  const { savedBytes } = hostMemoryOf(spec.job, layout, place);
  const bufferBytes = Math.min(spec.job.checkpoint.bufferBytes, pipeBytes);
  const tiers: Record<number, SharedArrayBuffer> = {};
  const saves: Record<number, SharedArrayBuffer> = {};
  const curves: Record<number, SharedArrayBuffer> = {};
  const columns: Record<number, SharedArrayBuffer> = {};
  const curveBytes = 8 * curveWords * spec.job.model.tables.length;
  for (let rank = first; rank < first + count; rank++) {
    saves[rank] = new SharedArrayBuffer(Math.min(savedBytes.get(rank) ?? 0, bufferBytes));
    const shape = tierRings[rank];
    if (shape === undefined) continue;
    tiers[rank] = new SharedArrayBuffer(tierRingBytes(shape));
    curves[rank] = new SharedArrayBuffer(curveBytes);
    columns[rank] = new SharedArrayBuffer(8 * columnWords * shape.shards.length);
  }
  const memory = {
    spec: shared,
    places: layout.places,
    position: place.position,
    words: new SharedArrayBuffer(4 * cellWords(participants, cells)),
    exchange: new SharedArrayBuffer(layoutOf(exchangeShape, place.position).bytes),
    ring: new SharedArrayBuffer(ringLayoutOf(ringShape, place).bytes),
    progress: new SharedArrayBuffer(progressBytes(spec.devices)),
    waits: new SharedArrayBuffer(waitNotesBytes(participants)),
    tiers,
    saves,
    curves,
    columns,
    heat: new SharedArrayBuffer(8 * heatWords(topology)),
    readers: new SharedArrayBuffer(boardBytes(spec.job.readers)),
    splits: new SharedArrayBuffer(shelfBytes(shelvesOf(spec))),
    ...(spec.hosts.length > 1 && { flights: new SharedArrayBuffer(flightBytes) }),
    timelines: new SharedArrayBuffer(timelinesBytes(spec, place.position)),
    replicas: replicasAtHand(spec, filesToRestore(spec, layout, place, leases), replicas),
    replicaBytes: replicas.bytesMax,
  };
  progressOver(memory, spec.devices).pause.fill(-1);
  for (let reader = 0; reader < spec.job.readers; reader++) {
    boardOf(memory.readers, reader).set("limit", spec.readerLimit ?? 0);
  }
  return memory;
}

function filesToRestore(
  { manifest }: GenerationSpec,
  layout: GenerationLayout,
  place: HostPlace,
  leases: readonly RowLease[],
): readonly NamedFile[] {
  const kept = leases.map(({ shards }) => shards);
  return manifest === undefined ? [] : filesOfHost(layout, place, manifest, kept);
}

function replicasAtHand(
  spec: GenerationSpec,
  files: readonly NamedFile[],
  replicas: ReplicaCache,
): ReplicasAtHand {
  const here = files.flatMap((file) => replicas.get(file) ?? []);
  const others = files.filter((file) => replicas.get(file) === undefined);
  let room = hasBuddies(spec) ? replicas.bytesMax - replicas.bytes : 0;
  const awaited = others.flatMap((file) => {
    if (file.bytes > Math.min(room, replicaBytesMax)) return [];
    room -= file.bytes;
    return [{ ...file, memory: new SharedArrayBuffer(file.bytes) }];
  });
  return { here, awaited, filled: new SharedArrayBuffer(4 * awaited.length) };
}

/** One end of the pipe from a device to its writer. */
export function pipePlaceOf(
  { spec, layout, memory }: Generation,
  rank: number,
  end: { readonly cells: Cells; readonly isWriter: boolean },
): PipePlace {
  const { writerOf, writerCellBase } = layout;
  const pipe = memory.saves[rank];
  if (pipe === undefined) throw new RangeError(`Device ${rank} is not of this host`);
  return {
    memory: pipe,
    cells: end.cells,
    cellBase: writerCellBase(rank),
    peer: end.isWriter ? rank : writerOf(rank),
    what: `the parts of device ${rank} of run ${spec.run}`,
  };
}

/** Wakes the thread of a participant to check its wait condition. */
export function wake({ memory }: Generation, participant: number): void {
  ringDoorbell(new Int32Array(memory.words), participant);
}

/** Read-only cells of a generation, for reports, which do not participate in it. */
export function readCells({ layout, memory }: Generation): Pick<Cells, "load"> {
  const words = new Int32Array(memory.words);
  const base = cellWords(layout.participants, 0);
  return { load: (cell) => Atomics.load(words, base + cell) };
}

/**
 * Returns a function that begins and ends a wait for room on a full disk; during it, other waits
 * have no deadline.
 */
export function holdOf({ layout, memory }: Pick<Generation, "layout" | "memory">) {
  const words = new Int32Array(memory.words);
  return (isHeld: boolean): void => holdCells(words, layout.participants, isHeld);
}

/** Aborts the generation: wakes every thread that waits, now or later. */
export function abort({ layout, memory }: Generation): void {
  abortCells(new Int32Array(memory.words), layout.participants);
}

/** Whether a thread or the host has aborted the generation. */
export function isAborted({ memory }: Pick<Generation, "memory">): boolean {
  return areAborted(new Int32Array(memory.words));
}

/**
 * The cells of one participant. `deadlineMs` Infinity: the participant, such as an idle reader, may
 * wait forever.
 */
export function openCells(
  { spec, layout, memory }: Generation,
  participant: number,
  options: {
    readonly clock: Clock;
    readonly deadlineMs: number;
    readonly sleep?: Sleep | undefined;
  },
): Cells {
  return createAtomicCells({
    words: new Int32Array(memory.words),
    participants: layout.participants,
    participant,
    generation: spec.generation,
    note: openWaitNote(memory.waits, participant),
    ...options,
  });
}

/** Progress counters in shared memory, written by devices and readers, and sampled by the host. */
export interface Progress {
  /** Completed steps, one word per device. */
  readonly steps: Int32Array;
  /** Word 0: pause after this step; -1: no pause is requested. */
  readonly pause: Int32Array;
  /** Loss of step n at n % windowStepsMax, written by device 0. */
  readonly losses: Float64Array;
  /**
   * Counters of this host's readers: batches, and microseconds of reading; in the split order also
   * bytes of the file, bytes of its samples, and microseconds of waiting for the disk; then ids of
   * deduplicated lists, and ids of the distinct ones.
   */
  readonly reading: BigInt64Array;
  /** The words of a device's meter (src/training/meters/step-meter.ts). */
  metersOf(device: number): BigInt64Array;
}

/** Number of words in `Progress.reading`. */
const readingWords = 7;

function progressBytes(devices: number): number {
  return 8 * (windowStepsMax + readingWords + meterWords * devices) + 4 * (devices + 1);
}

export function progressOver(memory: GenerationMemory, devices: number): Progress {
  const { progress } = memory;
  const reading = 8 * windowStepsMax;
  const meterOf = (device: number) => reading + 8 * (readingWords + meterWords * device);
  const steps = meterOf(devices);
  return {
    losses: new Float64Array(progress, 0, windowStepsMax),
    steps: new Int32Array(progress, steps, devices),
    pause: new Int32Array(progress, steps + 4 * devices, 1),
    reading: new BigInt64Array(progress, reading, readingWords),
    metersOf: (device) => new BigInt64Array(progress, meterOf(device), meterWords),
  };
}

// The assembly: all that the threads of one generation are told, and the memory that they share. A
// generation gets new memory, always: what an older thread still writes, nobody reads (law 3).

import { weightedOf } from "../../src/data/columns.ts";
import { curveWords } from "../../src/embedding/rows/miss-curve.ts";
import { createAtomicCells, type Sleep } from "../../src/exchange/atomic-cells.ts";
import { type RingShape, ringLayoutOf } from "../../src/exchange/batch-ring.ts";
import { type PipePlace, pipeCells } from "../../src/exchange/byte-pipe.ts";
import { abortCells, type Cells, cellWords } from "../../src/exchange/cells.ts";
import type { ExchangeShape } from "../../src/exchange/exchange.ts";
import { layoutOf } from "../../src/exchange/layout.ts";
import { openWaitNote, waitNotesBytes } from "../../src/exchange/wait-notes.ts";
import type { JobSpec } from "../../src/job/job.ts";
import { deviceCount, type Plan, planOfFile } from "../../src/planner/shards.ts";
import type { Clock } from "../../src/ports/clock.ts";
import { partsOfShards, savedBytesMax, shardsOf } from "../../src/training/checkpoint/parts.ts";
import { type Schedule, scheduleOf, windowStepsMax } from "../../src/training/loop/schedule.ts";
import { meterWords } from "../../src/training/meters/step-meter.ts";
import {
  exchangeShapeOf,
  ringShapeOf,
  type Topology,
  topologyOf,
} from "../../src/training/topology/topology.ts";
import type { Manifest } from "../../storage/checkpoint-store/checkpoint-store.ts";
import { Copies, filesOfParts, type NamedFile } from "../../storage/replicas/replica-cache.ts";
import { type CopiesAtHand, copyCells } from "../../storage/replicas/restore-source.ts";
import { type TierRingShape, tierRingBytes, tierRingCells } from "../../storage/tiers/ring.ts";
import { tierRingOf } from "../../storage/tiers/shape.ts";
import type { Network } from "../runtime/mailbox.ts";
import type { AssemblyRecord, DataPlan } from "./generation-schema.ts";

export type { DataPlan, DatasetPlan } from "./generation-schema.ts";

/** What a generation is made of. Plain data: it travels over the wire and into threads. */
export interface Assembly extends Omit<AssemblyRecord, "manifest"> {
  readonly manifest?: Manifest | undefined;
}

/** The generation in which the hosts go on from a step, or from the checkpoint of that cut. */
export function assemblyOf(from: {
  readonly scope: Pick<Assembly, "run" | "generation">;
  readonly job: JobSpec;
  readonly hosts: readonly Assembly["hosts"][number][];
  readonly plan: DataPlan | undefined;
  readonly step: number;
  readonly latest: Manifest | undefined;
  readonly sliceCounts: readonly number[] | undefined;
  readonly network: Pick<Network, "tracedEvery">;
}): Assembly {
  const { scope, job, hosts, plan, step, latest, sliceCounts } = from;
  if (plan === undefined) throw new RangeError("The data is not prepared");
  const devices = hosts.reduce((sum, host) => sum + host.devices, 0);
  const at = { data: plan, fromStep: step, manifest: latest };
  const slices = sliceCounts && { sliceCounts: [...sliceCounts] };
  const { tracedEvery } = from.network;
  const traced = tracedEvery === undefined ? {} : { tracedEvery };
  return { ...scope, job, devices, hosts: [...hosts], ...slices, ...at, ...traced };
}

/** A host's part of a generation: the devices of ranks first .. first+count-1. */
export interface HostPlace {
  readonly host: number;
  /** Among the hosts of the generation, from 0. */
  readonly position: number;
  readonly first: number;
  readonly count: number;
}

/** The hosts of a generation, in the order of their devices' ranks. */
export function hostPlaces({ hosts }: Pick<Assembly, "hosts">): HostPlace[] {
  let first = 0;
  return hosts.map(({ host, devices }, position) => {
    const place = { host, position, first, count: devices };
    first += devices;
    return place;
  });
}

/** The place of the host on which a device is. */
export function hostPlaceOf(assembly: Pick<Assembly, "hosts">, device: number): HostPlace {
  const place = hostPlaces(assembly).findLast(({ first }) => first <= device);
  if (place === undefined) throw new RangeError(`There is no device ${device}`);
  return place;
}

/**
 * Shared memory of one generation on one host. It has room for all devices: what other hosts write
 * comes over the wire to the same place, and pages that nobody touches cost nothing.
 */
export interface GenerationMemory {
  readonly words: SharedArrayBuffer;
  readonly exchange: SharedArrayBuffer;
  readonly ring: SharedArrayBuffer;
  readonly progress: SharedArrayBuffer;
  /** What its threads wait for, where that takes long (src/exchange/wait-notes.ts). */
  readonly waits: SharedArrayBuffer;
  /** Of each device of this host behind whose memory something lies: its ring (storage/tiers). */
  readonly tiers: Readonly<Record<number, SharedArrayBuffer>>;
  /** Of each device of this host: what it saves, on its way to its writer. */
  readonly saves: Readonly<Record<number, SharedArrayBuffer>>;
  /**
   * Of each such device: its counts for the curves of the tables
   * (src/training/planning/tier-advice.ts).
   */
  readonly curves: Readonly<Record<number, SharedArrayBuffer>>;
  readonly copies: CopiesAtHand;
}

/** What every thread derives from the assembly, each for itself. */
export interface Derived {
  readonly topology: Topology;
  readonly schedule: Schedule;
  readonly ringShape: RingShape;
  readonly exchangeShape: ExchangeShape;
  readonly exchangeCells: number;
  /**
   * Devices of all hosts, readers of one, its bridge where there are other hosts, and the tiers
   * and the writers of devices.
   */
  readonly participants: number;
  readonly readers: readonly number[];
  readonly bridge: number;
  /** By rank; undefined where all the rows of a device are in its memory. */
  readonly tierRings: readonly (TierRingShape | undefined)[];
  readonly cells: number;
  tierOf(rank: number): number;
  tierCellBase(rank: number): number;
  writerOf(rank: number): number;
  writerCellBase(rank: number): number;
  /** Of the copies that come from other hosts (storage/replicas/restore-source.ts). */
  readonly copyCellBase: number;
}

export function derive(assembly: Assembly): Derived {
  const { job, data, devices, hosts, sliceCounts } = assembly;
  const { batchSize, passes } = job.data;
  const { model, slices, exchange } = job;
  const weighted = weightedOf(job.data, model.tables);
  const { idsMax } = data;
  const plan = planFor(assembly);
  const { tiers } = job;
  const input = { model, batchSize, slices, sliceCounts, idsMax, weighted, exchange, plan, tiers };
  const hostOf = hostPlaces(assembly).flatMap(({ position, count }) =>
    new Array<number>(count).fill(position),
  );
  const topology = topologyOf(input, devices, hostOf);
  const exchangeShape = exchangeShapeOf(topology);
  const readers = Array.from({ length: job.readers }, (_, reader) => devices + reader);
  const ringShape = ringShapeOf(topology);
  const exchangeCells = layoutOf(exchangeShape).cells;
  const tierRings = topology.sliceRuns.map((_, rank) =>
    tierRingOf(topology, rank, job.optimizer.sparse),
  );
  const isTiered = tierRings.some((ring) => ring !== undefined);
  const bridge = devices + job.readers;
  const firstTier = bridge + (hosts.length > 1 ? 1 : 0);
  const firstWriter = firstTier + (isTiered ? devices : 0);
  const batchCells = exchangeCells + ringLayoutOf(ringShape).cells;
  const writerCells = batchCells + (isTiered ? devices * tierRingCells : 0);
  const copyCellBase = writerCells + devices * pipeCells;
  return {
    topology,
    schedule: scheduleOf({ samples: data.training.samples, batchSize, passes }),
    ringShape,
    exchangeShape,
    exchangeCells,
    participants: firstWriter + devices,
    readers,
    bridge,
    tierRings,
    cells: copyCellBase + copyCells(filesMax(assembly)),
    copyCellBase,
    tierOf: (rank) => firstTier + rank,
    tierCellBase: (rank) => batchCells + rank * tierRingCells,
    writerOf: (rank) => firstWriter + rank,
    writerCellBase: (rank) => writerCells + rank * pipeCells,
  };
}

/** The job's plan, where it is one for these devices. */
function planFor({ job, devices }: Assembly): Plan | undefined {
  if (job.plan === undefined) return undefined;
  const plan = planOfFile(job.plan);
  return deviceCount(plan.devices) === devices ? plan : undefined;
}

/** Whether the hosts have copies of each other's parts in their memory. */
export function hasBuddies({
  job,
  hosts,
}: {
  readonly job: JobSpec;
  readonly hosts: readonly unknown[];
}): boolean {
  return hosts.length > 1 && job.checkpoint.buddyBytes > 0;
}

/**
 * Whether a generation that has failed leaves something: then it is salvaged (partial-recovery.ts).
 */
export function isSalvaged({
  job,
  hosts,
}: {
  readonly job: JobSpec;
  readonly hosts: readonly { readonly devices: number }[];
}): boolean {
  const devices = hosts.reduce((sum, host) => sum + host.devices, 0);
  return job.checkpoint.partial !== undefined && devices > 1;
}

/** Files that may be awaited from other hosts. */
function filesMax(assembly: Assembly): number {
  if (!hasBuddies(assembly)) return 0;
  const parts = assembly.manifest?.parts ?? [];
  return parts.reduce((sum, { base }) => sum + 1 + base.length, 0);
}

/** The files that the devices of a host restore from, in the order in which they do. */
export function filesOfHost(
  { topology }: Derived,
  { first, count }: HostPlace,
  manifest: Manifest,
): NamedFile[] {
  const names = manifest.parts.map(({ name }) => name);
  const ranks = Array.from({ length: count }, (_, i) => first + i);
  const shards = ranks.flatMap((rank) => shardsOf(topology, rank));
  return filesOfParts(manifest, partsOfShards(topology, shards, names));
}

/** `copies`: those that the host has. */
export function allocate(
  assembly: Assembly,
  place: HostPlace,
  copies: Copies = new Copies(0),
): GenerationMemory {
  const { first, count } = place;
  const derived = derive(assembly);
  const { exchangeShape, ringShape, cells, participants, tierRings, topology } = derived;
  const { bufferBytes } = assembly.job.checkpoint;
  const ring = ringLayoutOf(ringShape);
  const words = cellWords(participants, cells);
  const tiers: Record<number, SharedArrayBuffer> = {};
  const saves: Record<number, SharedArrayBuffer> = {};
  const curves: Record<number, SharedArrayBuffer> = {};
  const curveBytes = 8 * curveWords * assembly.job.model.tables.length;
  for (let rank = first; rank < first + count; rank++) {
    const most = savedBytesMax(topology, rank, assembly.job.optimizer.sparse.kind);
    saves[rank] = new SharedArrayBuffer(Math.min(most, bufferBytes));
    const shape = tierRings[rank];
    if (shape === undefined) continue;
    tiers[rank] = new SharedArrayBuffer(tierRingBytes(shape));
    curves[rank] = new SharedArrayBuffer(curveBytes);
  }
  const memory = {
    words: new SharedArrayBuffer(4 * words),
    exchange: new SharedArrayBuffer(layoutOf(exchangeShape).bytes),
    ring: new SharedArrayBuffer(ring.bytes),
    progress: new SharedArrayBuffer(progressBytes(assembly.devices)),
    waits: new SharedArrayBuffer(waitNotesBytes(participants)),
    tiers,
    saves,
    curves,
    copies: copiesAtHand(assembly, filesOfManifest(assembly, derived, place), copies),
  };
  progressOver(memory, assembly.devices).pause.fill(-1);
  return memory;
}

function filesOfManifest(
  { manifest }: Assembly,
  derived: Derived,
  place: HostPlace,
): readonly NamedFile[] {
  return manifest === undefined ? [] : filesOfHost(derived, place, manifest);
}

function copiesAtHand(
  assembly: Assembly,
  files: readonly NamedFile[],
  copies: Copies,
): CopiesAtHand {
  const here = files.flatMap((file) => copies.get(file) ?? []);
  const others = files.filter((file) => copies.get(file) === undefined);
  let room = hasBuddies(assembly) ? copies.bytesMax - copies.bytes : 0;
  const awaited = others.flatMap((file) => {
    if (file.bytes > room) return [];
    room -= file.bytes;
    return [{ ...file, memory: new SharedArrayBuffer(file.bytes) }];
  });
  return { here, awaited, filled: new SharedArrayBuffer(4 * awaited.length) };
}

/** The pipe from a device to its writer, as one of the two sees it through its cells. */
export function pipePlaceOf(
  assembly: Assembly,
  { writerOf, writerCellBase }: Derived,
  { saves }: GenerationMemory,
  rank: number,
  end: { readonly cells: Cells; readonly isWriter: boolean },
): PipePlace {
  const memory = saves[rank];
  if (memory === undefined) throw new RangeError(`Device ${rank} is not of this host`);
  return {
    memory,
    cells: end.cells,
    cellBase: writerCellBase(rank),
    peer: end.isWriter ? rank : writerOf(rank),
    what: `the parts of device ${rank} of run ${assembly.run}`,
  };
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
  options: {
    readonly clock: Clock;
    readonly deadlineMs: number;
    readonly sleep?: Sleep | undefined;
  },
): Cells {
  return createAtomicCells({
    words: new Int32Array(memory.words),
    participants: derive(assembly).participants,
    participant,
    generation: assembly.generation,
    note: openWaitNote(memory.waits, participant),
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
  /** Batches that the readers of this host have read, and the microseconds that it took. */
  readonly reading: BigInt64Array;
  /** The words of a device's meter (src/training/meters/step-meter.ts). */
  metersOf(device: number): BigInt64Array;
}

function progressBytes(devices: number): number {
  return 8 * (windowStepsMax + 2 + meterWords * devices) + 4 * (devices + 1);
}

export function progressOver(memory: GenerationMemory, devices: number): Progress {
  const { progress } = memory;
  const reading = 8 * windowStepsMax;
  const meterOf = (device: number) => reading + 8 * (2 + meterWords * device);
  const steps = meterOf(devices);
  return {
    losses: new Float64Array(progress, 0, windowStepsMax),
    steps: new Int32Array(progress, steps, devices),
    pause: new Int32Array(progress, steps + 4 * devices, 1),
    reading: new BigInt64Array(progress, reading, 2),
    metersOf: (device) => new BigInt64Array(progress, meterOf(device), meterWords),
  };
}

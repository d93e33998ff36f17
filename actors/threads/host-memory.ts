// Predicts the memory that the devices of one host take in a generation, before any of it is
// reserved, and refuses sizes that no array or cell can hold, whatever the memory.

import { batchIdsMax } from "../../src/data/ids-room.ts";
import { indexBytes } from "../../src/embedding/rows/cache-sizes.ts";
import { SizeExceededError } from "../../src/errors/errors.ts";
import { inboxBytesMax } from "../../src/exchange/cells.ts";
import { channelNames, channels } from "../../src/exchange/exchange.ts";
import { layoutOf } from "../../src/exchange/layout.ts";
import type { JobSpec } from "../../src/job/job.ts";
import { atOnce, type Steps } from "../../src/ports/turns.ts";
import { savedBytesMax } from "../../src/training/checkpoint/parts.ts";
import { bufferMemoryOf } from "../../src/training/topology/buffer-memory.ts";
import {
  arraysOf,
  cacheBytes,
  heldIds,
  heldIdsBytes,
  layerBytes,
  rowNotesBytes,
} from "../../src/training/topology/private-memory.ts";
import { rowMemoryOf, type TableMemory } from "../../src/training/topology/row-memory.ts";
import type { Topology } from "../../src/training/topology/topology.ts";
import { recordCacheBytes } from "../../storage/tiers/records/record-cache.ts";
import { tierRingBytes } from "../../storage/tiers/ring-slots.ts";
import type { GenerationLayout } from "./generation-layout.ts";
import type { GenerationSpec } from "./generation-spec.ts";

/** A part of the memory, as errors name it. */
export interface MemoryPart {
  readonly what: string;
  readonly bytes: number;
}

export interface HostMemory {
  /** The tables with rows in memory, the largest first. */
  readonly tables: readonly TableMemory[];
  readonly tableBytes: number;
  /** Everything else. */
  readonly parts: readonly MemoryPart[];
  /** Bytes of the parts that grow with the ids of a batch. */
  readonly idsBytes: number;
  readonly otherBytes: number;
  /** Most bytes that each of the devices saves at a cut, by rank. */
  readonly savedBytes: ReadonlyMap<number, number>;
}

type Shapes = Pick<GenerationLayout, "topology" | "exchangeShape" | "ringShape" | "tierRings">;

interface Ranks {
  readonly first: number;
  readonly count: number;
}

const known = new WeakMap<Topology, Map<number, HostMemory>>();

/** The memory of the devices first .. first+count-1, which are on one host. */
export function hostMemoryOf(
  job: Pick<JobSpec, "optimizer" | "checkpoint" | "tiers">,
  shapes: Shapes,
  place: Ranks,
): HostMemory {
  return atOnce(addingUp(job, shapes, place));
}

/**
 * As `hostMemoryOf`. It adds up all shards, so it is computed once for a topology, which belongs to
 * one job.
 */
export function* addingUp(
  job: Pick<JobSpec, "optimizer" | "checkpoint" | "tiers">,
  shapes: Shapes,
  place: Ranks,
): Steps<HostMemory> {
  const ofHosts = known.get(shapes.topology) ?? new Map<number, HostMemory>();
  const memory = ofHosts.get(place.first) ?? (yield* addedUp(job, shapes, place));
  known.set(shapes.topology, ofHosts.set(place.first, memory));
  return memory;
}

function* addedUp(
  { optimizer, checkpoint, tiers }: Pick<JobSpec, "optimizer" | "checkpoint" | "tiers">,
  { topology, exchangeShape, ringShape, tierRings }: Shapes,
  place: Ranks,
): Steps<HostMemory> {
  const { sparse } = optimizer;
  const ranks = Array.from({ length: place.count }, (_, i) => place.first + i);
  const savedBytes = new Map<number, number>();
  for (const rank of ranks) {
    yield;
    savedBytes.set(rank, savedBytesMax(topology, rank, sparse));
  }
  yield;
  const sumOf = (bytes: (rank: number) => number) =>
    ranks.reduce((sum, rank) => sum + bytes(rank), 0);
  const tables = rowMemoryOf(topology, ranks, sparse);
  yield;
  const buffers = bufferMemoryOf(exchangeShape, ringShape, place);
  const idsBytes = buffers.idsBytes + sumOf((rank) => heldIdsBytes(topology, rank));
  const hasHashes = checkpoint.differential !== "none";
  const inHostMemory = (rank: number) => {
    const shape = tierRings[rank];
    if (shape === undefined) return 0;
    const all = shape.shards.reduce(
      (sum, own) => sum + own.rows * (own.recordBytes + indexBytes),
      0,
    );
    return tierRingBytes(shape) + (tiers.ssd === "none" ? all : Math.min(tiers.ddrBytes, all));
  };
  const saved = (rank: number) =>
    Math.min(pipeBytesMin, checkpoint.bufferBytes, savedBytes.get(rank) ?? 0);
  const parts = [
    { what: "ids", bytes: idsBytes },
    { what: "vectors and gradients", bytes: buffers.bytes - buffers.idsBytes },
    { what: "layers", bytes: layerBytes(topology, ranks) },
    {
      what: "marks of rows",
      bytes: sumOf((rank) => rowNotesBytes(topology, rank, hasHashes)),
    },
    {
      what: "cached rows (`tiers`)",
      bytes: sumOf((rank) => cacheBytes(topology, rank, sparse) + inHostMemory(rank)),
    },
    { what: "unwritten checkpoints (`checkpoint.bufferBytes`)", bytes: sumOf(saved) },
  ];
  const bytesIn = (own: readonly { readonly bytes: number }[]) =>
    own.reduce((sum, { bytes }) => sum + bytes, 0);
  const [tableBytes, otherBytes] = [bytesIn(tables), bytesIn(parts)];
  return { tables, tableBytes, parts, idsBytes, otherBytes, savedBytes };
}

/** Least bytes of a pipe to a writer, unless the device saves fewer. */
const pipeBytesMin = 2 ** 16;

/** The division of the remaining memory; each part also works with less. */
export interface MemoryShares {
  /** Undo logs of all devices (kept-rows.ts); 0: no rows are kept. */
  readonly undoBytes: number;
  /** The pipe of each device to its writer. A device waits where it is full. */
  readonly pipeBytes: number;
  readonly replicaBytes: number;
}

/** Limits on undo logs: a share of a host's memory, and of its rest after rows and buffers. */
const undoShare = 1 / 8;
const undoLeftShare = 1 / 2;

/**
 * Divides what is left of `memoryBytes`, at most as the job's options say. A job with partial
 * recovery or with rounded checkpoints keeps no rows: its checkpoints differ from them.
 */
export function sharesOf(
  { job }: Pick<GenerationSpec, "job">,
  layout: Shapes,
  place: Ranks,
  memoryBytes: number,
): MemoryShares {
  const { checkpoint } = job;
  const { tableBytes, otherBytes } = hostMemoryOf(job, layout, place);
  const left = Math.max(0, memoryBytes - tableBytes - otherBytes);
  const isKept = checkpoint.partial === undefined && checkpoint.bits === 32;
  const usual = Math.floor(Math.min(undoShare * memoryBytes, undoLeftShare * left));
  const undoBytes = isKept ? (checkpoint.undoBytes ?? usual) : 0;
  const rest = Math.max(0, left - undoBytes);
  const pipeBytes = Math.max(pipeBytesMin, Math.floor(rest / 2 / Math.max(1, place.count)));
  const replicaBytes = Math.max(
    0,
    rest - place.count * Math.min(pipeBytes, checkpoint.bufferBytes),
  );
  return { undoBytes, pipeBytes, replicaBytes };
}

// Sizes that do not fit, whatever the memory ----

/** Elements of a typed array (Node.js 20). */
const elementsMax = 2 ** 32 - 1;

/**
 * Refuses what arrays and cells of the devices first .. first+count-1 cannot hold. `feature`: the
 * one with the most ids.
 * @throws SizeExceededError
 */
export function checkSizes(
  { optimizer, tiers }: Pick<JobSpec, "optimizer" | "tiers">,
  { topology, exchangeShape, ringShape, tierRings }: Shapes,
  { first, count, position }: Ranks & { readonly position?: number },
  feature: string,
): void {
  const fewer = "lower `data.batchSize`, or train on more devices";
  const refuse = (what: string, size: number, sizeMax: number, mend: string) => {
    if (size > sizeMax) throw new SizeExceededError(what, size, sizeMax, mend);
  };
  const exchange = layoutOf(exchangeShape, position);
  for (let rank = first; rank < first + count; rank++) {
    for (const name of channelNames) {
      const { bytes } = exchange.channels[name].inbox(rank);
      const what = `Bytes of ${channels[name]} that device ${rank} receives in a step`;
      refuse(what, bytes, inboxBytesMax, fewer);
    }
    const ids = Math.max(ringShape.idsRoom[rank] ?? 0, heldIds(topology, rank));
    const shorter = `${fewer}, or shorten the lists with the transform \`firstX\``;
    const most = `most of feature \`${feature}\``;
    refuse(`Ids of a batch on device ${rank}, ${most}`, ids, batchIdsMax, shorter);
    for (const { table, elements } of arraysOf(topology, rank, optimizer.sparse)) {
      const cut = `cut it by \`rowBlocks\` or columns, or train on more devices`;
      const what = `Values of table \`${table}\` in one array on device ${rank}`;
      refuse(what, elements, elementsMax, cut);
    }
    const shape = tierRings[rank];
    for (const bytes of shape === undefined ? [] : recordCacheBytes(shape.shards, tiers)) {
      const what = `Bytes that \`tiers.ddrBytes\` gives to one table on device ${rank}`;
      refuse(what, bytes, elementsMax, "lower it, or give each device more tables or parts");
    }
  }
}

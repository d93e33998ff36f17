// The batch ring: readers pass batches to the devices of their host. Each device has a few slots in
// shared memory for each stream (training, evaluation, test). A reader fills slot t % slots with
// batch t of the stream; the device empties the slots in order.
//
//   granted[stream]          number of tickets that readers may fill: batches 0 .. granted-1; the
//                            host's first device writes it
//   filled[stream][d][slot]  ticket + 1 of the batch in the slot
//   taken[stream][d]         batches that the device has released
//
// Invariants
//   R1. A slot is filled only when the device has released the slot's former batch.
//   R2. A filled slot is never rewritten before its release, so a reader may be restarted at any
//       time.
//   R3. Slots are credits: a reader runs ahead of the devices by at most `slots` batches.

import type { BatchMemory } from "../data/dataset.ts";
import { groupWords, oneLabel, type Targets, targetWords } from "../data/targets.ts";
import { type Cells, nobody } from "./cells.ts";

export type Stream = "training" | "evaluation" | "test";

/**
 * Slots per stream if no batch is staged ahead: two batches ahead hide the reader's time behind the
 * step; more slots would only take memory.
 */
export const ringSlots = 3;

const streams: readonly Stream[] = ["training", "evaluation", "test"];
const headerInts = 4;

export interface RingShape {
  readonly devices: number;
  readonly dense: number;
  /** Longest bag of each feature. */
  readonly idsMax: readonly number[];
  /** Whether ids have upper halves, for every feature. */
  readonly isWide: boolean;
  /** Whether ids have weights, for every feature. */
  readonly isWeighted: boolean;
  /** Labels, sample weight and groups of a sample. @default one label */
  readonly targets?: Targets | undefined;
  /** Groups of features whose lists are deduplicated (ikjt.ts). @default 0 */
  readonly ikjtGroups?: number | undefined;
  /** Most samples of one device in a batch. */
  readonly samplesMax: readonly number[];
  /** Slots of a device for each stream, one batch each. */
  readonly slots: number;
  /** Whether there is a test stream, the last of the streams. @default false */
  readonly isTested?: boolean;
}

function streamsIn({ isTested }: RingShape): number {
  return isTested === true ? streams.length : streams.length - 1;
}

/** One device's part of a batch: the samples of its slices. */
export interface LocalBatch extends BatchMemory {
  readonly ticket: number;
  /** Samples of this device, and of the whole batch. */
  readonly samples: number;
  readonly batchSamples: number;
  readonly idCount: number;
}

export interface RingLayout {
  readonly bytes: number;
  readonly cells: number;
  slot(stream: Stream, device: number, slot: number): SlotOffsets;
}

interface SlotOffsets {
  readonly header: number;
  readonly dense: number;
  readonly labels: number;
  readonly lengths: number;
  readonly ids: number;
  readonly highs: number;
  readonly weights: number;
  readonly sampleWeights: number;
  readonly groups: number;
  readonly inverse: number;
  readonly idsMax: number;
}

/** The offsets of all arrays. A pure function of the shape. */
export function ringLayoutOf(shape: RingShape): RingLayout {
  const features = shape.idsMax.length;
  const targets = shape.targets ?? oneLabel;
  const { ikjtGroups = 0 } = shape;
  const idsPerSample = shape.idsMax.reduce((sum, most) => sum + most, 0);
  const floats = (device: number) => shape.samplesMax[device] ?? 0;
  const slotBytes = (device: number): number => {
    const samples = floats(device);
    const words = (1 + (shape.isWide ? 1 : 0) + (shape.isWeighted ? 1 : 0)) * idsPerSample;
    const targetsAndLists = targetWords(targets) + ikjtGroups + features;
    return 4 * (headerInts + samples * (shape.dense + targetsAndLists + words));
  };
  const base: number[] = [];
  let bytes = 0;
  for (let device = 0; device < shape.devices; device++) {
    base.push(bytes);
    bytes += slotBytes(device) * shape.slots * streamsIn(shape);
  }
  return {
    bytes: Math.max(bytes, 4),
    cells: streamsIn(shape) * (1 + shape.devices * (shape.slots + 1)),
    slot(stream, device, slot) {
      const index = streams.indexOf(stream) * shape.slots + slot;
      const header = (base[device] ?? 0) + index * slotBytes(device);
      const samples = floats(device);
      const dense = header + 4 * headerInts;
      const labels = dense + 4 * samples * shape.dense;
      const lengths = labels + 4 * samples * targets.labels;
      const ids = lengths + 4 * samples * features;
      const idsMax = samples * idsPerSample;
      const highs = ids + 4 * idsMax;
      const weights = shape.isWide ? highs + 4 * idsMax : highs;
      const sampleWeights = shape.isWeighted ? weights + 4 * idsMax : weights;
      const groups = targets.hasSampleWeights ? sampleWeights + 4 * samples : sampleWeights;
      const inverse = groups + (targets.hasGroups ? 4 * groupWords * samples : 0);
      const ofIds = { lengths, ids, highs, weights, inverse, idsMax };
      return { header, dense, labels, sampleWeights, groups, ...ofIds };
    },
  };
}

/** The indices of a stream's cells, from `cellBase` on. */
function cellsOf(shape: RingShape, cellBase: number, stream: Stream) {
  const perStream = 1 + shape.devices * (shape.slots + 1);
  const base = cellBase + streams.indexOf(stream) * perStream;
  return {
    granted: base,
    filled: (device: number, slot: number) => base + 1 + device * (shape.slots + 1) + slot,
    taken: (device: number) => base + 1 + device * (shape.slots + 1) + shape.slots,
  };
}

/**
 * How the work of the training stream is divided among the n readers of a host: a reader serves
 * every n-th batch, or every n-th device. In the split order a device's part of a batch is in the
 * device's own splits, and each split should be read by one reader only.
 */
export type Dealing = "batches" | "devices";

interface RingPlace {
  /** @default "batches" */
  readonly dealing?: Dealing | undefined;
  readonly shape: RingShape;
  /** The devices of this host: readers serve only these. */
  readonly local: { readonly first: number; readonly count: number };
  readonly memory: ArrayBufferLike;
  readonly cells: Cells;
  readonly cellBase: number;
}

/** The index of the host's reader that fills a device's slot for a ticket. */
export function readerOf(
  { dealing, local, readers }: Pick<RingPlace, "dealing" | "local"> & { readonly readers: number },
  stream: Stream,
  device: number,
  ticket: number,
): number {
  const isByDevice = dealing === "devices" && stream === "training";
  return (isByDevice ? device - local.first : ticket) % readers;
}

/** A device's end of the ring. */
export interface BatchIntake {
  /** The next batch of the stream; valid until it is released. */
  next(stream: Stream): Promise<LocalBatch>;
  /** The next batch of the stream, if it is filled already. */
  nextIfThere(stream: Stream): LocalBatch | undefined;
  /** Number of filled batches that the device has not taken with `next` yet. */
  waiting(stream: Stream): number;
  /** Releases the oldest held batch to the readers. */
  release(stream: Stream): void;
  /**
   * Lets readers fill `count` more tickets. Only the call of the host's first device takes effect.
   */
  grant(stream: Stream, count: number): void;
}

export function createBatchIntake(
  place: RingPlace & { readonly device: number; readonly readers: readonly number[] },
): BatchIntake {
  const { shape, memory, cells, device, local, readers } = place;
  const layout = ringLayoutOf(shape);
  const dealing = { ...place, readers: readers.length };
  /** Number of batches handed to the device; `taken`: number of batches that it has released. */
  const given: Record<Stream, number> = { training: 0, evaluation: 0, test: 0 };
  const taken: Record<Stream, number> = { training: 0, evaluation: 0, test: 0 };
  const isThere = (stream: Stream, ticket: number): boolean => {
    const { filled } = cellsOf(shape, place.cellBase, stream);
    return cells.load(filled(device, ticket % shape.slots)) === ticket + 1;
  };
  const give = (stream: Stream): LocalBatch => {
    const ticket = given[stream]++;
    return viewOf(layout, memory, shape, stream, device, ticket % shape.slots, ticket);
  };
  return {
    async next(stream) {
      const ticket = given[stream];
      await cells.waitUntil(
        () => `batch ${ticket} of the ${stream} stream`,
        () => isThere(stream, ticket),
        readers[readerOf(dealing, stream, device, ticket)] ?? nobody,
      );
      return give(stream);
    },
    nextIfThere: (stream) => (isThere(stream, given[stream]) ? give(stream) : undefined),
    waiting(stream) {
      let ticket = given[stream];
      while (ticket < taken[stream] + shape.slots && isThere(stream, ticket)) ticket++;
      return ticket - given[stream];
    },
    release(stream) {
      taken[stream]++;
      cells.store(cellsOf(shape, place.cellBase, stream).taken(device), taken[stream], readers);
    },
    grant(stream, count) {
      if (device !== local.first) return;
      const { granted } = cellsOf(shape, place.cellBase, stream);
      cells.store(granted, cells.load(granted) + count, readers);
    },
  };
}

/** A reader's end of the ring. */
export interface BatchOutlet {
  /** The devices that this reader serves in this stream. */
  devicesOf(stream: Stream): readonly number[];
  /** The first ticket that this reader should fill for some device, if there is room for it. */
  nextTicket(stream: Stream): number | undefined;
  /** Whether this reader still has to fill batch `ticket` for this device. */
  lacks(stream: Stream, device: number, ticket: number): boolean;
  /** Memory of the slot for `ticket`, which `nextTicket` must have returned. R1 */
  slotMemory(stream: Stream, device: number, ticket: number, samples: number): BatchMemory;
  /** Publishes the batch to the device. */
  publish(
    stream: Stream,
    device: number,
    ticket: number,
    counts: { samples: number; batchSamples: number; idCount: number },
  ): void;
}

/**
 * Number of a stream's batches that are ready for a device or held by it, at most `shape.slots`.
 * `isCounted`: counts only some tickets.
 */
export function batchesOf(
  place: {
    readonly shape: RingShape;
    readonly cells: Pick<Cells, "load">;
    readonly cellBase: number;
  },
  device: number,
  stream: Stream,
  isCounted: (ticket: number) => boolean = () => true,
): number {
  const { shape, cells, cellBase } = place;
  const { filled, taken } = cellsOf(shape, cellBase, stream);
  const given = cells.load(taken(device));
  const slots = Array.from({ length: shape.slots }, (_, slot) => cells.load(filled(device, slot)));
  return slots.filter((next) => next > given && isCounted(next - 1)).length;
}

export function createBatchOutlet(
  place: RingPlace & { readonly reader: number; readonly readers: number },
): BatchOutlet {
  const { shape, memory, cells, local, reader, dealing } = place;
  const layout = ringLayoutOf(shape);
  const devices = Array.from({ length: local.count }, (_, i) => local.first + i);
  const isOurs = (stream: Stream, device: number, ticket: number) =>
    readerOf(place, stream, device, ticket) === reader;
  const trained =
    dealing === "devices" ? devices.filter((device) => isOurs("training", device, 0)) : devices;
  const devicesOf = (stream: Stream) => (stream === "training" ? trained : devices);
  const lacks = (stream: Stream, device: number, ticket: number): boolean => {
    if (!isOurs(stream, device, ticket)) return false;
    const at = cellsOf(shape, place.cellBase, stream);
    const isTaken = cells.load(at.taken(device)) > ticket;
    return !isTaken && cells.load(at.filled(device, ticket % shape.slots)) !== ticket + 1; // R2
  };
  return {
    devicesOf,
    lacks,
    nextTicket(stream) {
      const at = cellsOf(shape, place.cellBase, stream);
      const granted = cells.load(at.granted);
      let behind = Number.POSITIVE_INFINITY;
      for (const device of devicesOf(stream)) {
        behind = Math.min(behind, cells.load(at.taken(device)));
      }
      if (behind === Number.POSITIVE_INFINITY) return undefined;
      const end = Math.min(granted, behind + shape.slots); // R1, R3
      for (let ticket = behind; ticket < end; ticket++) {
        if (devices.some((device) => lacks(stream, device, ticket))) return ticket;
      }
      return undefined;
    },
    slotMemory(stream, device, ticket, samples) {
      const at = layout.slot(stream, device, ticket % shape.slots);
      const features = shape.idsMax.length;
      return {
        dense: new Float32Array(memory, at.dense, samples * shape.dense),
        ...targetViews(shape, memory, at, samples),
        lengths: new Int32Array(memory, at.lengths, samples * features),
        ids: new Int32Array(memory, at.ids, at.idsMax),
        highs: shape.isWide ? new Int32Array(memory, at.highs, at.idsMax) : undefined,
        weights: shape.isWeighted ? new Float32Array(memory, at.weights, at.idsMax) : undefined,
        ...inverseView(shape, memory, at, samples),
      };
    },
    publish(stream, device, ticket, counts) {
      const at = layout.slot(stream, device, ticket % shape.slots);
      const header = new Int32Array(memory, at.header, headerInts);
      header[0] = counts.samples;
      header[1] = counts.batchSamples;
      header[2] = counts.idCount;
      const { filled } = cellsOf(shape, place.cellBase, stream);
      cells.store(filled(device, ticket % shape.slots), ticket + 1, [device]);
    },
  };
}

function viewOf(
  layout: RingLayout,
  memory: ArrayBufferLike,
  shape: RingShape,
  stream: Stream,
  device: number,
  slot: number,
  ticket: number,
): LocalBatch {
  const at = layout.slot(stream, device, slot);
  const [samples = 0, batchSamples = 0, idCount = 0] = new Int32Array(memory, at.header, 3);
  return {
    ticket,
    samples,
    batchSamples,
    idCount,
    dense: new Float32Array(memory, at.dense, samples * shape.dense),
    ...targetViews(shape, memory, at, samples),
    lengths: new Int32Array(memory, at.lengths, samples * shape.idsMax.length),
    ids: new Int32Array(memory, at.ids, idCount),
    highs: shape.isWide ? new Int32Array(memory, at.highs, idCount) : undefined,
    weights: shape.isWeighted ? new Float32Array(memory, at.weights, idCount) : undefined,
    ...inverseView(shape, memory, at, samples),
  };
}

/** The index of each sample's distinct list in a slot, if lists are deduplicated. */
function inverseView(
  { ikjtGroups = 0 }: RingShape,
  memory: ArrayBufferLike,
  at: SlotOffsets,
  samples: number,
): Pick<BatchMemory, "inverse"> {
  if (ikjtGroups === 0) return {};
  return { inverse: new Int32Array(memory, at.inverse, ikjtGroups * samples) };
}

/** The labels, sample weights and groups in a slot. */
function targetViews(
  { targets = oneLabel }: RingShape,
  memory: ArrayBufferLike,
  at: SlotOffsets,
  samples: number,
): Pick<BatchMemory, "labels" | "sampleWeights" | "groups"> {
  const { labels, hasSampleWeights, hasGroups } = targets;
  const view = (offset: number, words: number) => new Float32Array(memory, offset, words * samples);
  return {
    labels: view(at.labels, labels),
    ...(hasSampleWeights ? { sampleWeights: view(at.sampleWeights, 1) } : {}),
    ...(hasGroups ? { groups: view(at.groups, groupWords) } : {}),
  };
}

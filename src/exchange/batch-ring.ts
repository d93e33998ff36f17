// The batch ring: readers pass batches to the devices of their host. Each device has a few slots in
// shared memory for each stream (training, evaluation, test). A reader fills slot t % slots with
// batch t of the stream; the device empties the slots in order.
//
//   granted[stream]          number of tickets that readers may fill: batches 0 .. granted-1; the
//                            host's first device writes it
//   filled[stream][d][slot]  ticket + 1 of the batch in the slot; -(k + 1): piece k of the slot's
//                            next batch, of which more pieces follow
//   drained[stream][d][slot] pieces of the slot's batch that the device has copied
//   taken[stream][d]         batches that the device has released
//
// A slot has room for the ids of a usual batch (src/data/ids-room.ts). A batch with more ids passes
// through its slot in pieces, which the device joins in memory of its own. Its lengths, labels and
// dense features are in the slot.
//
// Invariants
//   R1. A slot is filled only when the device has released the slot's former batch.
//   R2. A filled slot is never rewritten before its release, so a reader may be restarted at any
//       time.
//   R3. Slots are credits: a reader runs ahead of the devices by at most `slots` batches.
//   R4. A piece is overwritten only when the device has copied it. A reader does not wait for the
//       copy: while a piece is in the slot, the batch does not count as lacking (`lacks`).

import type { BatchMemory } from "../data/dataset.ts";
import { groupWords, oneLabel, type Targets, targetWords } from "../data/targets.ts";
import type { Cells } from "./cells.ts";

export type Stream = "training" | "evaluation" | "test";

/**
 * Slots per stream if no batch is staged ahead: two batches ahead hide the reader's time behind the
 * step; more slots would only take memory.
 */
export const ringSlots = 3;

const streams: readonly Stream[] = ["training", "evaluation", "test"];
export const headerInts = 4;

export interface RingShape {
  readonly devices: number;
  readonly dense: number;
  /** Categorical features of a sample. */
  readonly features: number;
  /** Room for ids in a slot of each device. */
  readonly idsRoom: readonly number[];
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

export interface SlotOffsets {
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
  /** Room for ids. */
  readonly idsRoom: number;
}

/** Devices with consecutive ranks. */
interface Ranks {
  readonly first: number;
  readonly count: number;
}

/**
 * The offsets of all arrays: a pure function of the shape and of the host's devices `local`, which
 * alone have slots. @default all devices
 */
export function ringLayoutOf(
  shape: RingShape,
  { first, count }: Ranks = { first: 0, count: shape.devices },
): RingLayout {
  const { ikjtGroups = 0, features } = shape;
  const targets = shape.targets ?? oneLabel;
  const floats = (device: number) => shape.samplesMax[device] ?? 0;
  const slotBytes = (device: number): number => {
    const wordsPerId = 1 + (shape.isWide ? 1 : 0) + (shape.isWeighted ? 1 : 0);
    const words = wordsPerId * (shape.idsRoom[device] ?? 0);
    const targetsAndLists = targetWords(targets) + ikjtGroups + features;
    return 4 * (headerInts + words + floats(device) * (shape.dense + targetsAndLists));
  };
  const base: number[] = [];
  let bytes = 0;
  for (let device = 0; device < shape.devices; device++) {
    base.push(bytes);
    if (device < first || device >= first + count) continue;
    bytes += slotBytes(device) * shape.slots * streamsIn(shape);
  }
  return {
    bytes: Math.max(bytes, 4),
    cells: streamsIn(shape) * cellsPerStream(shape),
    slot(stream, device, slot) {
      const index = streams.indexOf(stream) * shape.slots + slot;
      const header = (base[device] ?? 0) + index * slotBytes(device);
      const samples = floats(device);
      const dense = header + 4 * headerInts;
      const labels = dense + 4 * samples * shape.dense;
      const lengths = labels + 4 * samples * targets.labels;
      const ids = lengths + 4 * samples * features;
      const idsRoom = shape.idsRoom[device] ?? 0;
      const highs = ids + 4 * idsRoom;
      const weights = shape.isWide ? highs + 4 * idsRoom : highs;
      const sampleWeights = shape.isWeighted ? weights + 4 * idsRoom : weights;
      const groups = targets.hasSampleWeights ? sampleWeights + 4 * samples : sampleWeights;
      const inverse = groups + (targets.hasGroups ? 4 * groupWords * samples : 0);
      const ofIds = { lengths, ids, highs, weights, inverse, idsRoom };
      return { header, dense, labels, sampleWeights, groups, ...ofIds };
    },
  };
}

function cellsPerStream({ devices, slots }: RingShape): number {
  return 1 + devices * (2 * slots + 1);
}

/** The indices of a stream's cells, from `cellBase` on. */
export function cellsOf(shape: RingShape, cellBase: number, stream: Stream) {
  const { slots } = shape;
  const base = cellBase + streams.indexOf(stream) * cellsPerStream(shape);
  const ofDevice = (device: number) => base + 1 + device * (2 * slots + 1);
  return {
    granted: base,
    filled: (device: number, slot: number) => ofDevice(device) + slot,
    drained: (device: number, slot: number) => ofDevice(device) + slots + slot,
    taken: (device: number) => ofDevice(device) + 2 * slots,
  };
}

/** The value of `filled` for a piece that is not the last. */
export function pieceMark(piece: number): number {
  return -(piece + 1);
}

/**
 * How the work of the training stream is divided among the n readers of a host: a reader serves
 * every n-th batch, or every n-th device. In the split order a device's part of a batch is in the
 * device's own splits, and each split should be read by one reader only.
 */
export type Dealing = "batches" | "devices";

export interface RingPlace {
  /** @default "batches" */
  readonly dealing?: Dealing | undefined;
  readonly shape: RingShape;
  /** The devices of this host: readers serve only these. */
  readonly local: Ranks;
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

/** Ids with their upper halves and weights, if they have any. */
export type IdArrays = Pick<BatchMemory, "ids" | "highs" | "weights">;

/** The first `count` ids in a slot. */
export function idViews(
  { isWide, isWeighted }: RingShape,
  memory: ArrayBufferLike,
  at: SlotOffsets,
  count: number,
): IdArrays {
  return {
    ids: new Int32Array(memory, at.ids, count),
    highs: isWide ? new Int32Array(memory, at.highs, count) : undefined,
    weights: isWeighted ? new Float32Array(memory, at.weights, count) : undefined,
  };
}

/** The index of each sample's distinct list in a slot, if lists are deduplicated. */
export function inverseView(
  { ikjtGroups = 0 }: RingShape,
  memory: ArrayBufferLike,
  at: SlotOffsets,
  samples: number,
): Pick<BatchMemory, "inverse"> {
  if (ikjtGroups === 0) return {};
  return { inverse: new Int32Array(memory, at.inverse, ikjtGroups * samples) };
}

/** The labels, sample weights and groups in a slot. */
export function targetViews(
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

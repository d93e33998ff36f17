// A reader's end of the batch ring (batch-ring.ts): it fills the slots of its host's devices. A
// batch with more ids than its slot has room for stays in the reader's memory until its last piece
// is in the slot; a reader that takes over in between reads the batch again.

import type { BatchMemory } from "../data/dataset.ts";
import { checkedIds } from "../data/ids-room.ts";
import { copyIds, idArrays } from "./batch-pieces.ts";
import {
  cellsOf,
  headerInts,
  type IdArrays,
  idViews,
  inverseView,
  pieceMark,
  type RingPlace,
  readerOf,
  ringLayoutOf,
  type Stream,
  targetViews,
} from "./batch-ring.ts";

/** One device's part of a batch. */
export interface BatchPart {
  readonly stream: Stream;
  readonly device: number;
  readonly ticket: number;
  readonly samples: number;
  readonly batchSamples: number;
}

export interface BatchOutlet {
  /** The devices that this reader serves in this stream. */
  devicesOf(stream: Stream): readonly number[];
  /** The first ticket that this reader should fill for some device, if there is room for it. */
  nextTicket(stream: Stream): number | undefined;
  /** Whether this reader has to fill the slot of batch `ticket` for this device now. */
  lacks(stream: Stream, device: number, ticket: number): boolean;
  /**
   * Fills the slot for a ticket, which `nextTicket` must have returned, and publishes it. `read`
   * fills the memory, and returns the number of ids; if that is more than the memory has room for,
   * it is called again, with room for them. R1
   */
  fill(part: BatchPart, read: (memory: BatchMemory) => number): void;
  /**
   * Fills the slots of a ticket with the next pieces of long batches that were already read.
   * Returns whether every device then has its batch or its next piece.
   */
  goOn(stream: Stream, ticket: number): boolean;
}

export function createBatchOutlet(
  place: RingPlace & { readonly reader: number; readonly readers: number },
): BatchOutlet {
  const { shape, memory, cells, local, reader, dealing } = place;
  const layout = ringLayoutOf(shape, local);
  const devices = Array.from({ length: local.count }, (_, i) => local.first + i);
  /** Ids of batches with pieces to come. R4 */
  const long = new Map<string, LongBatch>();
  const isOurs = (stream: Stream, device: number, ticket: number) =>
    readerOf(place, stream, device, ticket) === reader;
  const trained =
    dealing === "devices" ? devices.filter((device) => isOurs("training", device, 0)) : devices;
  const devicesOf = (stream: Stream) => (stream === "training" ? trained : devices);
  const lacks = (stream: Stream, device: number, ticket: number): boolean => {
    if (!isOurs(stream, device, ticket)) return false;
    const at = cellsOf(shape, place.cellBase, stream);
    if (cells.load(at.taken(device)) > ticket) return false;
    const slot = ticket % shape.slots;
    const filled = cells.load(at.filled(device, slot));
    return filled !== ticket + 1 && filled !== pieceMark(cells.load(at.drained(device, slot))); // R2
  };
  const slotOf = ({ stream, device, ticket }: BatchPart) =>
    layout.slot(stream, device, ticket % shape.slots);
  const memoryOf = (part: BatchPart): BatchMemory => {
    const at = slotOf(part);
    const { samples } = part;
    return {
      dense: new Float32Array(memory, at.dense, samples * shape.dense),
      ...targetViews(shape, memory, at, samples),
      lengths: new Int32Array(memory, at.lengths, samples * shape.features),
      ...idViews(shape, memory, at, at.idsRoom),
      ...inverseView(shape, memory, at, samples),
    };
  };
  const publish = (part: BatchPart, idCount: number, mark: number) => {
    const { stream, device, ticket, samples, batchSamples } = part;
    new Int32Array(memory, slotOf(part).header, headerInts).set([samples, batchSamples, idCount]);
    const { filled } = cellsOf(shape, place.cellBase, stream);
    cells.store(filled(device, ticket % shape.slots), mark, [device]);
  };
  /** Puts the next piece of a batch into its slot. */
  const send = ({ part, all, idCount }: LongBatch) => {
    const { stream, device, ticket } = part;
    const at = slotOf(part);
    const { drained } = cellsOf(shape, place.cellBase, stream);
    const piece = cells.load(drained(device, ticket % shape.slots));
    const first = piece * at.idsRoom;
    const count = Math.min(at.idsRoom, idCount - first);
    copyIds(idViews(shape, memory, at, count), 0, all, first, count);
    const isLast = first + count === idCount;
    publish(part, idCount, isLast ? ticket + 1 : pieceMark(piece));
    if (isLast) long.delete(keyOf(part));
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
    fill(part, read) {
      const slot = memoryOf(part);
      const { idsRoom } = slotOf(part);
      const idCount = checkedIds(read(slot));
      if (idCount <= idsRoom) return publish(part, idCount, part.ticket + 1);
      const all = idArrays(shape, idCount);
      const batch = { part, all, idCount: read({ ...slot, ...all }) };
      long.set(keyOf(part), batch);
      send(batch);
    },
    goOn(stream, ticket) {
      const lacking = devicesOf(stream).filter((device) => lacks(stream, device, ticket));
      for (const device of lacking) {
        const batch = long.get(keyOf({ stream, device, ticket }));
        if (batch !== undefined) send(batch);
      }
      return !lacking.some((device) => lacks(stream, device, ticket));
    },
  };
}

/** A batch of which a piece is still to be sent. */
interface LongBatch {
  readonly part: BatchPart;
  readonly all: IdArrays;
  readonly idCount: number;
}

function keyOf({ stream, device, ticket }: Pick<BatchPart, "stream" | "device" | "ticket">) {
  return `${stream}:${device}:${ticket}`;
}

// Batches with more ids than a slot of the batch ring has room for (batch-ring.ts, R4): the reader
// passes them through the slot in pieces, and the device joins the pieces in memory of its own.

import {
  cellsOf,
  headerInts,
  type IdArrays,
  idViews,
  pieceMark,
  type RingLayout,
  type RingPlace,
  type RingShape,
  type Stream,
} from "./batch-ring.ts";

/** Arrays for `count` ids. */
export function idArrays({ isWide, isWeighted }: RingShape, count: number): IdArrays {
  return {
    ids: new Int32Array(count),
    highs: isWide ? new Int32Array(count) : undefined,
    weights: isWeighted ? new Float32Array(count) : undefined,
  };
}

/** Copies `count` ids of `ids`, from index `from` on, into `out`, from index `to` on. */
export function copyIds(
  out: IdArrays,
  to: number,
  ids: IdArrays,
  from: number,
  count: number,
): void {
  out.ids.set(ids.ids.subarray(from, from + count), to);
  if (ids.highs !== undefined) out.highs?.set(ids.highs.subarray(from, from + count), to);
  if (ids.weights !== undefined) out.weights?.set(ids.weights.subarray(from, from + count), to);
}

/** The device's end: takes the pieces of its batches. */
export interface PieceTaker {
  /** Whether a piece that is not the last of batch `ticket` waits in its slot. */
  waits(stream: Stream, ticket: number): boolean;
  /** Copies the waiting piece, and frees the slot for the next one. */
  copy(stream: Stream, ticket: number): void;
  /** Joins the ids of a batch that came in pieces; empty if the whole batch is in its slot. */
  joined(stream: Stream, ticket: number): Partial<IdArrays>;
  /** Prepares the slot of a batch that is released for the next batch. */
  forget(stream: Stream, ticket: number): void;
}

export function createPieceTaker(
  place: RingPlace & { readonly device: number; readonly readers: readonly number[] },
  layout: RingLayout,
): PieceTaker {
  const { shape, memory, cells, device, readers } = place;
  /** Memory for the ids of long batches, by stream and slot. It grows with their ids. */
  const memories = new Map<string, IdArrays>();
  const cellsAt = (stream: Stream, ticket: number) => {
    const { filled, drained } = cellsOf(shape, place.cellBase, stream);
    const slot = ticket % shape.slots;
    return { filled: filled(device, slot), drained: drained(device, slot) };
  };
  const memoryOf = (stream: Stream, ticket: number, count: number): IdArrays => {
    const key = `${stream}:${ticket % shape.slots}`;
    const known = memories.get(key);
    if (known !== undefined && known.ids.length >= count) return known;
    const grown = idArrays(shape, count);
    memories.set(key, grown);
    return grown;
  };
  /** Copies piece `piece`, which is in the slot. Returns all ids of the batch so far. */
  const take = (stream: Stream, ticket: number, piece: number): IdArrays => {
    const at = layout.slot(stream, device, ticket % shape.slots);
    const [, , idCount = 0] = new Int32Array(memory, at.header, headerInts);
    const first = piece * at.idsRoom;
    const count = Math.min(at.idsRoom, idCount - first);
    const out = memoryOf(stream, ticket, idCount);
    copyIds(out, first, idViews(shape, memory, at, count), 0, count);
    return {
      ids: out.ids.subarray(0, idCount),
      highs: out.highs?.subarray(0, idCount),
      weights: out.weights?.subarray(0, idCount),
    };
  };
  return {
    waits(stream, ticket) {
      const at = cellsAt(stream, ticket);
      return cells.load(at.filled) === pieceMark(cells.load(at.drained));
    },
    copy(stream, ticket) {
      const { drained } = cellsAt(stream, ticket);
      const piece = cells.load(drained);
      take(stream, ticket, piece);
      cells.store(drained, piece + 1, readers); // R4
    },
    joined(stream, ticket) {
      const piece = cells.load(cellsAt(stream, ticket).drained);
      return piece === 0 ? {} : take(stream, ticket, piece);
    },
    forget(stream, ticket) {
      const { drained } = cellsAt(stream, ticket);
      if (cells.load(drained) > 0) cells.store(drained, 0, []);
    },
  };
}

// A device's end of the batch ring (batch-ring.ts).

import { createPieceTaker } from "./batch-pieces.ts";
import {
  cellsOf,
  idViews,
  inverseView,
  type LocalBatch,
  type RingPlace,
  type RingShape,
  readerOf,
  ringLayoutOf,
  type SlotOffsets,
  type Stream,
  targetViews,
} from "./batch-ring.ts";
import { nobody } from "./cells.ts";

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
  const layout = ringLayoutOf(shape, local);
  const pieces = createPieceTaker(place, layout);
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
    const at = layout.slot(stream, device, ticket % shape.slots);
    return { ...viewOf(at, memory, shape, ticket), ...pieces.joined(stream, ticket) };
  };
  /** Copies the pieces of a batch that have arrived so far. */
  const drain = (stream: Stream, ticket: number): void => {
    while (pieces.waits(stream, ticket)) pieces.copy(stream, ticket);
  };
  return {
    async next(stream) {
      const ticket = given[stream];
      for (;;) {
        await cells.waitUntil(
          () => `batch ${ticket} of the ${stream} stream`,
          () => isThere(stream, ticket) || pieces.waits(stream, ticket),
          readers[readerOf(dealing, stream, device, ticket)] ?? nobody,
        );
        if (isThere(stream, ticket)) return give(stream);
        drain(stream, ticket);
      }
    },
    nextIfThere(stream) {
      drain(stream, given[stream]);
      return isThere(stream, given[stream]) ? give(stream) : undefined;
    },
    waiting(stream) {
      let ticket = given[stream];
      const end = taken[stream] + shape.slots;
      for (let ahead = ticket; ahead < end; ahead++) drain(stream, ahead);
      while (ticket < end && isThere(stream, ticket)) ticket++;
      return ticket - given[stream];
    },
    release(stream) {
      pieces.forget(stream, taken[stream]);
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

function viewOf(
  at: SlotOffsets,
  memory: ArrayBufferLike,
  shape: RingShape,
  ticket: number,
): LocalBatch {
  const [samples = 0, batchSamples = 0, idCount = 0] = new Int32Array(memory, at.header, 3);
  return {
    ticket,
    samples,
    batchSamples,
    idCount,
    dense: new Float32Array(memory, at.dense, samples * shape.dense),
    ...targetViews(shape, memory, at, samples),
    lengths: new Int32Array(memory, at.lengths, samples * shape.features),
    ...idViews(shape, memory, at, Math.min(idCount, at.idsRoom)),
    ...inverseView(shape, memory, at, samples),
  };
}

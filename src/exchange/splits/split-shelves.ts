// Shelves carry splits' blocks from a worker's thread to the readers of its host through shared
// memory. Each worker place has a shelf of a few slots, which only the thread in this place fills.
// Readers scan all shelves for their parts. Requests and completions still travel as messages
// (split-frames.ts).
//
//   bells       a word for each reader, and one for each shelf: counts slots filled, or emptied
//   slot        which part of which split it holds, and the bytes of the part
//   slot, full  0, or 1 + the reader that the part is for; written last
//
// Invariants
//   F1. A slot is marked full only when all of its bytes are written: the unfinished write of a
//       worker that died is never read.
//   F2. A full slot belongs to its reader until the reader has emptied it. Slots are the credits: a
//       worker is ahead of the readers by at most `slotsOfShelf` slots.
//   F3. One thread fills a shelf: its replacement starts only after its exit was observed (law 3).

import assert from "node:assert/strict";
import type { Clock } from "../../ports/clock.ts";
import type { Sleep } from "../atomic-cells.ts";
import type { Split, SplitPart } from "./split-frames.ts";

/** The numbers of readers and shelves of a host. */
export interface ShelfShape {
  readonly readers: number;
  /** Places for workers. */
  readonly shelves: number;
}

/** Most bytes of a part. A worker writes one slot while a reader copies another. */
export const slotBytes = 512 * 1024;
/**
 * Slots per shelf: they hold a split of some megabytes, so that its worker can request the next
 * split while a reader copies.
 */
export const slotsOfShelf = 8;
/** How often a worker that waits for a slot checks whether the generation is over. */
const lookMs = 100;

const streams: readonly Split["stream"][] = ["training", "evaluation", "test"];
const headWords = ["full", "stream", "first", "end", "at", "bytes", "length"].length;
const align = 64;

/** Bytes of a host's shelves. Pages that are never written cost no memory. */
export function shelfBytes({ readers, shelves }: ShelfShape): number {
  return dataFirst({ readers, shelves }) + shelves * slotsOfShelf * slotBytes;
}

export interface ShelfPlace {
  readonly memory: SharedArrayBuffer;
  readonly shape: ShelfShape;
  /** Waits on a word of the memory without blocking the thread, which also serves a connection. */
  readonly sleep: Sleep;
}

export interface ShelfWriter {
  /**
   * Resolves when all parts of a split are in slots, when the generation is over, or when the
   * reader empties no slot for `patienceMs`: it is then gone, or requests the split again.
   */
  send(reader: number, split: Split, bytes: Uint8Array): Promise<void>;
}

/**
 * The writer of the shelf of this worker place. `patienceMs`: how long a reader may take to free a
 * slot.
 */
export function createShelfWriter(
  place: ShelfPlace & {
    readonly shelf: number;
    readonly clock: Clock;
    readonly patienceMs: number;
    readonly isAborted: () => boolean;
  },
): ShelfWriter {
  const { shape, shelf, clock, sleep, patienceMs, isAborted } = place;
  assert(shelf < shape.shelves, "a place for a worker");
  const { words, slotOf } = viewOf(place);
  const slots = Array.from({ length: slotsOfShelf }, (_, slot) => slotOf(shelf, slot));
  const bell = shape.readers + shelf;
  const freeSlot = async () => {
    const sinceMs = clock.now();
    for (;;) {
      const rung = Atomics.load(words, bell); // Read before the slots: no ring is missed.
      const free = slots.find(({ head }) => Atomics.load(words, head) === 0); // F2
      if (free !== undefined || isAborted() || clock.now() - sinceMs > patienceMs) return free;
      await sleep(words, bell, rung, Math.min(lookMs, patienceMs));
    }
  };
  return {
    async send(reader, { stream, first, end }, bytes) {
      for (let at = 0; at < bytes.length; at += slotBytes) {
        const part = bytes.subarray(at, at + slotBytes);
        const slot = await freeSlot();
        if (slot === undefined) return;
        slot.data.set(part);
        const about = [streams.indexOf(stream), first, end, at, bytes.length, part.length];
        words.set(about, slot.head + 1);
        Atomics.store(words, slot.head, 1 + reader); // F1
        ring(words, reader);
      }
    },
  };
}

export interface ShelfReader {
  /**
   * Passes the reader's parts to `take`, which must copy the bytes. Resolves once the reader is
   * closed.
   */
  serve(take: (part: SplitPart, bytes: Uint8Array) => void): Promise<void>;
  close(): void;
}

/** The reader's view of all shelves. `reader`: its index on its host. */
export function createShelfReader(place: ShelfPlace & { readonly reader: number }): ShelfReader {
  const { shape, reader, sleep } = place;
  const { words, slotOf } = viewOf(place);
  const slots = Array.from({ length: shape.shelves * slotsOfShelf }, (_, i) =>
    slotOf(Math.floor(i / slotsOfShelf), i % slotsOfShelf),
  );
  let isClosed = false;
  return {
    async serve(take) {
      for (;;) {
        const rung = Atomics.load(words, reader); // Read before the slots: no ring is missed.
        if (isClosed) return;
        for (const { shelf, head, data } of slots) {
          if (Atomics.load(words, head) !== 1 + reader) continue; // F1
          const [stream = 0, first = 0, end = 0, at = 0, bytes = 0, length = 0] = words.subarray(
            head + 1,
            head + headWords,
          );
          const split = { stream: streams[stream] ?? "training", first, end };
          take({ split, at, bytes }, data.subarray(0, length));
          Atomics.store(words, head, 0); // F2
          ring(words, shape.readers + shelf);
        }
        await sleep(words, reader, rung, Number.POSITIVE_INFINITY);
      }
    },
    close() {
      isClosed = true;
      ring(words, reader);
    },
  };
}

function viewOf({ memory, shape }: ShelfPlace) {
  const first = dataFirst(shape);
  const words = new Int32Array(memory, 0, first / 4);
  const slotOf = (shelf: number, slot: number) => {
    const index = shelf * slotsOfShelf + slot;
    const head = shape.readers + shape.shelves + index * headWords;
    return { shelf, head, data: new Uint8Array(memory, first + index * slotBytes, slotBytes) };
  };
  return { words, slotOf };
}

/** Offset of the first slot's bytes. */
function dataFirst({ readers, shelves }: ShelfShape): number {
  const bytes = 4 * (readers + shelves + shelves * slotsOfShelf * headWords);
  return align * Math.ceil(bytes / align);
}

function ring(words: Int32Array, bell: number): void {
  Atomics.add(words, bell, 1);
  Atomics.notify(words, bell);
}

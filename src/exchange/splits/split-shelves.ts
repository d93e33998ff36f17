// Shelves: the way of splits' blocks from a worker's thread to the readers of its host, through
// shared memory. Each place for a worker has a shelf, a few slots that the thread in this place
// alone fills. Readers look into all shelves for what is theirs. What is asked for, and what is
// done, stays with messages (split-frames.ts).
//
//   bells       a word for each reader, and one for each shelf: something was put in, or taken out
//   slot        which part of which split it has, and the bytes of this part
//   slot, full  0, or 1 + the reader that the part is for; written last
//
// Invariants
//   F1. A slot is full only when all of its bytes lie there: what a worker that died was about to
//       write is never read.
//   F2. A full slot is its reader's until the reader has emptied it. Credits are slots: a worker is
//       ahead of the readers by `slotsOfShelf` slots at most.
//   F3. One thread fills a shelf: the next one in its place begins when its exit was seen (law 3).

import assert from "node:assert/strict";
import type { Clock } from "../../ports/clock.ts";
import type { Sleep } from "../atomic-cells.ts";
import type { Split, SplitPart } from "./split-frames.ts";

/** How many of each a host has. */
export interface ShelfShape {
  readonly readers: number;
  /** Places for workers. */
  readonly shelves: number;
}

/** Bytes of a part, at most. A worker writes one while a reader copies another. */
export const slotBytes = 512 * 1024;
/** A split of some megabytes fits: its worker asks for the next one while a reader copies. */
export const slotsOfShelf = 8;
/** How often a worker that waits for a slot looks whether the generation is over. */
const lookMs = 100;

const streams: readonly Split["stream"][] = ["training", "evaluation", "test"];
const headWords = ["full", "stream", "first", "end", "at", "bytes", "length"].length;
const align = 64;

/** Bytes of the shelves of a host: pages that no worker reaches cost nothing. */
export function shelfBytes({ readers, shelves }: ShelfShape): number {
  return dataFirst({ readers, shelves }) + shelves * slotsOfShelf * slotBytes;
}

export interface ShelfPlace {
  readonly memory: SharedArrayBuffer;
  readonly shape: ShelfShape;
  /** How it waits: without blocking the thread, which has a connection to serve. */
  readonly sleep: Sleep;
}

export interface ShelfWriter {
  /**
   * Resolves when all bytes of a split are on their way to a reader of the host, or when the reader
   * takes none: then it is gone, or asks again.
   */
  send(reader: number, split: Split, bytes: Uint8Array): Promise<void>;
}

/** The shelf of the worker at this place. `patienceMs`: how long a reader may take for one slot. */
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
   * Passes the parts that come for the reader to `take`, which copies what it needs. Resolves once
   * the reader is closed.
   */
  serve(take: (part: SplitPart, bytes: Uint8Array) => void): Promise<void>;
  close(): void;
}

/** The shelves as a reader sees them: by its index on its host. */
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

/** Where the bytes of the first slot begin. */
function dataFirst({ readers, shelves }: ShelfShape): number {
  const bytes = 4 * (readers + shelves + shelves * slotsOfShelf * headWords);
  return align * Math.ceil(bytes / align);
}

function ring(words: Int32Array, bell: number): void {
  Atomics.add(words, bell, 1);
  Atomics.notify(words, bell);
}

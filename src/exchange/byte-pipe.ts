// A pipe of bytes between two threads of one host, through a ring in shared memory: one writes, one
// reads, and neither waits while there is room and something to read. Two cells say how far they
// are, as sums of bytes modulo 2^32:
//
//   written   bytes that were put in
//   read      bytes that were taken out
//
// Invariants
//   P1. Bytes are overwritten when they were read.
//   P2. After `rewind`, which both ends do where nothing is on its way, bytes go to the front of
//       the ring again: pages that a small load never reached cost nothing.

import assert from "node:assert/strict";
import type { Cells } from "./cells.ts";

/** Cells of a pipe: written, read. */
export const pipeCells = 2;

export interface PipePlace {
  /** The ring; its size is what may be on its way at once, below 2 GiB. */
  readonly memory: ArrayBufferLike;
  readonly cells: Cells;
  readonly cellBase: number;
  /** Participant at the other end. */
  readonly peer: number;
  /** What travels, for the names of waits. */
  readonly what: string;
}

export interface PipeWriter {
  /** Resolves when all of it is in the ring; the caller keeps the buffer. */
  write(bytes: Uint8Array): Promise<void>;
  /** Resolves when everything was read. */
  drained(): Promise<void>;
  rewind(): void;
}

export interface PipeReader {
  /** Fills `out`. */
  read(out: Uint8Array): Promise<void>;
  rewind(): void;
}

/** Bytes that are on their way through a pipe. */
export function pipedBytes(cells: Pick<Cells, "load">, cellBase: number): number {
  return (cells.load(cellBase) - cells.load(cellBase + 1)) >>> 0;
}

export function createPipeWriter(place: PipePlace): PipeWriter {
  const { cells, cellBase, peer, what } = place;
  const ring = new Uint8Array(place.memory);
  let at = 0;
  let written = 0;
  const onTheWay = () => (written - cells.load(cellBase + 1)) >>> 0;
  return {
    async write(bytes) {
      for (let done = 0; done < bytes.length; ) {
        if (onTheWay() === ring.length) {
          await cells.waitUntil(
            () => `room for ${what} in the buffer`,
            () => onTheWay() < ring.length,
            peer,
          );
        }
        const room = Math.min(ring.length - onTheWay(), ring.length - at); // P1
        const piece = bytes.subarray(done, done + room);
        ring.set(piece, at);
        done += piece.length;
        at = (at + piece.length) % ring.length;
        written = (written + piece.length) | 0;
        cells.store(cellBase, written, [peer]);
      }
    },
    async drained() {
      await cells.waitUntil(
        () => `${what} to be taken`,
        () => onTheWay() === 0,
        peer,
      );
    },
    rewind() {
      assert.equal(onTheWay(), 0, "P2");
      at = 0;
    },
  };
}

export function createPipeReader(place: PipePlace): PipeReader {
  const { cells, cellBase, peer, what } = place;
  const ring = new Uint8Array(place.memory);
  let at = 0;
  let read = 0;
  const there = () => (cells.load(cellBase) - read) >>> 0;
  return {
    async read(out) {
      for (let done = 0; done < out.length; ) {
        if (there() === 0) {
          await cells.waitUntil(
            () => what,
            () => there() > 0,
            peer,
          );
        }
        const count = Math.min(there(), ring.length - at, out.length - done);
        out.set(ring.subarray(at, at + count), done);
        done += count;
        at = (at + count) % ring.length;
        read = (read + count) | 0;
        cells.store(cellBase + 1, read, [peer]);
      }
    },
    rewind() {
      assert.equal(there(), 0, "P2");
      at = 0;
    },
  };
}

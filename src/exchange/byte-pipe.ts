// A pipe of bytes between two threads of one host, through a ring buffer in shared memory. One
// thread writes and waits only for room; the other reads and waits only for bytes. Two cells
// publish their progress, as totals of bytes modulo 2^32:
//
//   written   bytes written to the ring
//   read      bytes read from the ring
//
// Invariants
//   P1. Bytes are overwritten only after they were read.
//   P2. After `rewind`, which both ends call while the pipe is empty, bytes are written from the
//       front of the ring again, so that a small load never makes the system allocate later pages.

import assert from "node:assert/strict";
import type { Cells } from "./cells.ts";

/** Cells of a pipe: written, read. */
export const pipeCells = 2;

export interface PipePlace {
  /** The ring. Its size, below 2 GiB, limits the bytes in flight. */
  readonly memory: ArrayBufferLike;
  readonly cells: Cells;
  readonly cellBase: number;
  /** The participant at the other end. */
  readonly peer: number;
  /** The name of the bytes in waits and their timeouts. */
  readonly what: string;
}

export interface PipeWriter {
  /** Resolves when all bytes are in the ring. The caller keeps the buffer. */
  write(bytes: Uint8Array): Promise<void>;
  /** Resolves when the reader has read all bytes. */
  drained(): Promise<void>;
  rewind(): void;
}

export interface PipeReader {
  /** Fills `out`. */
  read(out: Uint8Array): Promise<void>;
  rewind(): void;
}

/** Bytes written to a pipe and not read yet. */
export function pipedBytes(cells: Pick<Cells, "load">, cellBase: number): number {
  return (cells.load(cellBase) - cells.load(cellBase + 1)) >>> 0;
}

export function createPipeWriter(place: PipePlace): PipeWriter {
  const { cells, cellBase, peer, what } = place;
  const ring = new Uint8Array(place.memory);
  let at = 0;
  let written = 0;
  const unread = () => (written - cells.load(cellBase + 1)) >>> 0;
  return {
    async write(bytes) {
      for (let done = 0; done < bytes.length; ) {
        if (unread() === ring.length) {
          await cells.waitUntil(
            () => `room for ${what} in the buffer`,
            () => unread() < ring.length,
            peer,
          );
        }
        const room = Math.min(ring.length - unread(), ring.length - at); // P1
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
        () => `${what} to be read`,
        () => unread() === 0,
        peer,
      );
    },
    rewind() {
      assert.equal(unread(), 0, "P2");
      at = 0;
    },
  };
}

export function createPipeReader(place: PipePlace): PipeReader {
  const { cells, cellBase, peer, what } = place;
  const ring = new Uint8Array(place.memory);
  let at = 0;
  let read = 0;
  const unread = () => (cells.load(cellBase) - read) >>> 0;
  return {
    async read(out) {
      for (let done = 0; done < out.length; ) {
        if (unread() === 0) {
          await cells.waitUntil(
            () => what,
            () => unread() > 0,
            peer,
          );
        }
        const count = Math.min(unread(), ring.length - at, out.length - done);
        out.set(ring.subarray(at, at + count), done);
        done += count;
        at = (at + count) % ring.length;
        read = (read + count) | 0;
        cells.store(cellBase + 1, read, [peer]);
      }
    },
    rewind() {
      assert.equal(unread(), 0, "P2");
      at = 0;
    },
  };
}

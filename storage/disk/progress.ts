// The pace of long work on a checkpoint: it says how far it is, lets others have the thread between
// two chunks, and stops there when it is asked to.

import { setImmediate } from "node:timers/promises";
import type { Disk } from "../../src/ports/disk.ts";

/** What long work may be told. */
export interface PaceOptions {
  /** Is told how many bytes of how many were done, often. */
  readonly onProgress?: ((done: number, total: number) => void) | undefined;
  /** Ends the work, which then throws the signal's reason and leaves nothing behind. */
  readonly signal?: AbortSignal | undefined;
  /** @default the machine's own */
  readonly disk?: Disk | undefined;
}

export interface Pace {
  /** So many bytes more will have to be done, by and large. */
  expect(bytes: number): void;
  /** The pieces as they come, counted. */
  count(pieces: Iterable<Uint8Array>): Iterable<Uint8Array>;
  /** Between two chunks. @throws the signal's reason */
  breathe(): Promise<void>;
}

export function paceOf({ onProgress, signal }: PaceOptions): Pace {
  let total = 0;
  let done = 0;
  return {
    expect(bytes) {
      total += bytes;
    },
    *count(pieces) {
      for (const piece of pieces) {
        done += piece.length;
        yield piece;
      }
    },
    async breathe() {
      onProgress?.(Math.min(done, total), total);
      await setImmediate();
      signal?.throwIfAborted();
    },
  };
}

// The progress of long work on a checkpoint: it reports bytes done, yields the thread between two
// chunks, and stops there on request.

import { setImmediate } from "node:timers/promises";
import type { Disk } from "../../src/ports/disk.ts";

/** Options that every long operation on a checkpoint shares. */
export interface ProgressOptions {
  /** Called often with the bytes done and the total. */
  readonly onProgress?: ((done: number, total: number) => void) | undefined;
  /**
   * Aborts the work, which then throws the signal's reason. Resumable work keeps the files from
   * which it resumes; all other work leaves no files behind.
   */
  readonly signal?: AbortSignal | undefined;
  /** @default the machine's own */
  readonly disk?: Disk | undefined;
}

export interface Progress {
  /** Adds an estimate of bytes still to be done. */
  expect(bytes: number): void;
  /** Yields the pieces unchanged and adds their bytes to the bytes done. */
  count(pieces: Iterable<Uint8Array>): Iterable<Uint8Array>;
  /** Counts bytes as done that an earlier, interrupted command has written. */
  skip(bytes: number): void;
  /** Yields the thread between two chunks. @throws the signal's reason */
  breathe(): Promise<void>;
}

export function progressOf({ onProgress, signal }: ProgressOptions): Progress {
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
    skip(bytes) {
      done += bytes;
    },
    async breathe() {
      onProgress?.(Math.min(done, total), total);
      await setImmediate();
      signal?.throwIfAborted();
    },
  };
}

// How a thread hangs, and how it runs out of memory: the real thing, for threads that are to break.

/** Blocks the calling thread. Whatever wakes a doorbell does not wake this. */
export function hang(forMs: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, forMs);
}

/** Fills the heap of this thread until its engine ends it. Never returns. */
export function exhaustMemory(): never {
  const kept: unknown[] = [];
  for (;;) kept.push(new Array(100_000).fill(kept.length));
}

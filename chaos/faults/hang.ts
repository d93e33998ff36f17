// Real hangs and real memory exhaustion of a thread, for fault injection.

/** Blocks the calling thread. Ringing its doorbell does not wake it. */
export function hang(forMs: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, forMs);
}

/** Fills the heap of this thread until V8 terminates it. Never returns. */
export function exhaustMemory(): never {
  const kept: unknown[] = [];
  for (;;) kept.push(new Array(100_000).fill(kept.length));
}

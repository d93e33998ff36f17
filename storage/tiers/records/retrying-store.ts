// A record store that retries writes while the disk is full, until there is room or a time limit is
// reached. Readers never see a half-written batch, because a failed write is repeated as a whole
// batch (record-store.ts).

import { TierDiskFullError } from "../../../src/errors/errors.ts";
import type { Clock } from "../../../src/ports/clock.ts";
import type { RecordStore } from "./record-store.ts";

/** Pause between two tries on a full disk. */
const retryMs = 100;

/** Blocks the thread, as the calls of a record store are synchronous. */
function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

/**
 * Wraps a store so that writes wait for disk space, each for at most `patienceMs`, and pause the
 * thread meanwhile. `onFull` is called with true when a wait begins, and with false when the write
 * succeeded.
 */
export function retryingStore(
  store: RecordStore,
  options: {
    readonly clock: Pick<Clock, "now">;
    readonly patienceMs: number;
    readonly onFull: (isFull: boolean) => void;
    /** Pauses the thread. @default it blocks */
    readonly pause?: ((ms: number) => void) | undefined;
  },
): RecordStore {
  const { clock, patienceMs, onFull, pause = block } = options;
  const write: RecordStore["write"] = (at, rows, records) => {
    const startMs = clock.now();
    for (let attempt = 0; ; attempt++) {
      try {
        store.write(at, rows, records);
        if (attempt > 0) onFull(false);
        return;
      } catch (error) {
        const isOver = clock.now() - startMs > patienceMs;
        if (!(error instanceof TierDiskFullError) || isOver) throw error;
        if (attempt === 0) onFull(true);
        pause(retryMs);
      }
    }
  };
  return {
    ...store,
    write,
    get stamp() {
      return store.stamp;
    },
  };
}

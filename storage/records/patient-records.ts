// A store that waits for room: where the disk is full, a write is tried again until somebody has
// made some, or the time for it is over. Nothing is half there meanwhile: what failed was a whole
// batch, which is written again (record-store.ts).

import { TierDiskFullError } from "../../src/errors/errors.ts";
import type { Clock } from "../../src/ports/clock.ts";
import type { RecordStore } from "./record-store.ts";

/** How often a full disk is asked again. */
const retryMs = 100;

/** Blocks the thread. */
function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

/**
 * The same store. It pauses its thread while it waits, for at most `patienceMs` a write; `onFull`
 * is called with true when it begins to wait, and with false when there was room.
 */
export function patient(
  store: RecordStore,
  options: {
    readonly clock: Pick<Clock, "now">;
    readonly patienceMs: number;
    readonly onFull: (isFull: boolean) => void;
    /** How the thread waits. @default it blocks */
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

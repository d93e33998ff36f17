// Rate limiter of a reader: determines when it may begin its next batch under the run's limit. The
// readers of a host take turns, evenly over time; every host observes the limit by itself, and the
// exchange keeps the hosts in step. Only training batches are limited: an evaluation has a
// deadline.
//
// The limit affects when a batch is read, never which one: results are the same to the bit.

/** A reader's place among the readers of its host. */
export interface LimitedPlace {
  /** Limit in samples per second of all readers together; 0: no limit. */
  limit(): number;
  /** Each reader serves every `turns`-th batch; 1: it serves a part of every batch. */
  readonly turns: number;
  /** The reader's place in the cycle of turns, from 0. */
  readonly turn: number;
  readonly batchSize: number;
}

export interface RateLimiter {
  /** Wait before the next batch; 0: it may begin. */
  waitMs(nowMs: number): number;
  /** Records the start of a batch; `samples` counts those of all devices. */
  began(nowMs: number, samples: number): void;
}

export function createRateLimiter({ limit, turns, turn, batchSize }: LimitedPlace): RateLimiter {
  let last: { readonly atMs: number; readonly samples: number } | undefined;
  const intervalMs = (samples: number) => (1000 * samples) / limit();
  const dueMs = (nowMs: number): number => {
    // After a new limit, the readers start one after another.
    last ??= { atMs: nowMs, samples: turn * batchSize };
    return last.atMs + intervalMs(last.samples);
  };
  return {
    waitMs(nowMs) {
      if (limit() > 0) return Math.max(0, dueMs(nowMs) - nowMs);
      last = undefined;
      return 0;
    },
    began(nowMs, samples) {
      if (limit() === 0) return;
      const own = turns * samples;
      // A late wake-up is made up for, by at most one turn: a limit is not an average.
      last = { atMs: Math.max(dueMs(nowMs), nowMs - intervalMs(own)), samples: own };
    },
  };
}

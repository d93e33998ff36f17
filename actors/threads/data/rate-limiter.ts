// The rate limiter of a reader: when it may begin its next batch, where its run has a limit. The
// readers of a host take turns, evenly over time; every host keeps to the limit by itself, and the
// exchange keeps the hosts together. Only batches to train on count: an evaluation has a deadline
// of its own.
//
// Time decides when a batch is read and never which: the limit changes no bit.

/** A reader's place among the readers of its host. */
export interface LimitedPlace {
  /** Most samples a second that all readers together may serve; 0: there is no limit. */
  limit(): number;
  /** Each reader has every so many-th batch; 1: it reads a part of every batch. */
  readonly turns: number;
  /** Whose turn it is, from 0. */
  readonly turn: number;
  readonly batchSize: number;
}

export interface RateLimiter {
  /** How long to wait before the next batch; 0: it may begin. */
  waitMs(nowMs: number): number;
  /** A batch of so many samples, of all devices, began. */
  began(nowMs: number, samples: number): void;
}

export function createRateLimiter({ limit, turns, turn, batchSize }: LimitedPlace): RateLimiter {
  let last: { readonly atMs: number; readonly samples: number } | undefined;
  const intervalMs = (samples: number) => (1000 * samples) / limit();
  const dueMs = (nowMs: number): number => {
    // Where the limit is new, the readers fall in one after another.
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
      // What a late wake has cost is made up for, by one turn at most: a limit is no average.
      last = { atMs: Math.max(dueMs(nowMs), nowMs - intervalMs(own)), samples: own };
    },
  };
}

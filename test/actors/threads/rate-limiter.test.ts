// When the readers of a rate-limited run may begin their batches, in virtual time.

import test from "ava";
import { createRateLimiter, type RateLimiter } from "../../../actors/threads/data/rate-limiter.ts";
import { SimulatedClock } from "../../../src/ports/clock.ts";

/**
 * The times at which readers begin `batches` batches of 100 samples, each at the earliest allowed
 * time.
 */
function timesOf(
  limiters: readonly RateLimiter[],
  clock: SimulatedClock,
  batches: number,
): number[] {
  const times: number[] = [];
  const go = (limiter: RateLimiter) => {
    const waitMs = limiter.waitMs(clock.now());
    if (waitMs > 0) return void clock.after(waitMs, () => go(limiter));
    times.push(clock.now());
    limiter.began(clock.now(), 100);
    clock.after(0, () => go(limiter));
  };
  for (const limiter of limiters) go(limiter);
  while (times.length < batches && clock.runNext());
  return times.slice(0, batches);
}

const three = (limit: () => number) =>
  [0, 1, 2].map((turn) => createRateLimiter({ limit, turns: 3, turn, batchSize: 100 }));

test("the readers of a rate-limited host take turns at even intervals", (t) => {
  const times = timesOf(
    three(() => 1000),
    new SimulatedClock(),
    9,
  );
  t.deepEqual(times.map(Math.round), [0, 100, 200, 300, 400, 500, 600, 700, 800]);
});

test("without a limit no reader waits, and a new limit applies from the next batch on", (t) => {
  let limit = 0;
  const limiter = createRateLimiter({ limit: () => limit, turns: 1, turn: 0, batchSize: 100 });
  for (const atMs of [0, 1, 2]) {
    t.is(limiter.waitMs(atMs), 0);
    limiter.began(atMs, 100);
  }
  limit = 1000;
  t.is(limiter.waitMs(10), 0);
  limiter.began(10, 100);
  t.is(limiter.waitMs(10), 100);
  limit = 2000;
  t.is(limiter.waitMs(10), 50);
  limit = 0;
  t.is(limiter.waitMs(10), 0);
});

test("a short batch costs a shorter wait, and lost time is made up by one batch only", (t) => {
  const limiter = createRateLimiter({ limit: () => 1000, turns: 1, turn: 0, batchSize: 100 });
  limiter.began(0, 12);
  t.is(limiter.waitMs(0), 12);
  t.is(limiter.waitMs(5000), 0); // Slots were full until now.
  limiter.began(5000, 100);
  t.is(limiter.waitMs(5000), 0);
  limiter.began(5000, 100);
  t.is(limiter.waitMs(5000), 100);
});

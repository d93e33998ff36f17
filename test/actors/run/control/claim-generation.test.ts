// The claim of a generation waits while the disk is full.

import test from "ava";
import {
  isDiskFull,
  isStoreAway,
  onceThereIsRoom,
} from "../../../../actors/run/control/claim-generation.ts";
import {
  GenerationFencedError,
  InputUnusableError,
  RemoteError,
  recordError,
  StepTimeoutError,
  StoreFailedError,
} from "../../../../src/errors/errors.ts";
import { SimulatedClock } from "../../../../src/ports/clock.ts";

function fullDisk(): StoreFailedError {
  const cause = Object.assign(new Error("ENOSPC"), { code: "ENOSPC", syscall: "write" });
  return new StoreFailedError("begin a generation in", "/run", { cause });
}

/** Claims a generation on a disk that is full for the first `full` attempts. */
async function claimed(full: number, patienceMs: number, abortedAtMs = Number.POSITIVE_INFINITY) {
  const clock = new SimulatedClock();
  const atMs: number[] = [];
  let reports = 0;
  const aborting = new AbortController();
  const { signal } = aborting;
  clock.after(abortedAtMs, () => aborting.abort());
  const ended = onceThereIsRoom(
    () => {
      atMs.push(clock.now());
      if (atMs.length <= full) throw fullDisk();
      return "claimed";
    },
    { clock, patienceMs, signal, mayPass: isDiskFull, tell: () => reports++ },
  ).catch((error: unknown) => error);
  for (let i = 0; i < 100; i++) {
    await new Promise((resume) => setImmediate(resume));
    clock.runNext();
  }
  return { end: await ended, atMs, reports };
}

test("a claim on a full disk retries with growing waits, reports it once, and succeeds", async (t) => {
  const { end, atMs, reports } = await claimed(6, 240_000);
  t.is(end, "claimed");
  t.is(reports, 1);
  t.deepEqual(atMs, [0, 250, 750, 1750, 3750, 7750, 12_750]);
});

test("a claim fails if the disk stays full for the whole patience", async (t) => {
  const { end, atMs } = await claimed(1000, 20_000);
  t.true(end instanceof StoreFailedError);
  t.true((atMs.at(-1) ?? 0) >= 20_000 && atMs.length < 10);
});

test("a claim whose run has ended meanwhile is not tried again: it would fence the next run", async (t) => {
  const { end, atMs } = await claimed(2, 240_000, 500);
  t.like(end, { name: "AbortError" });
  t.deepEqual(atMs, [0, 250]);
});

test("a claim waits for an unreachable object store, but not for one that refuses", (t) => {
  const failed = new StoreFailedError("write", "s3://bucket/run/log/0000000001.json");
  t.true(isStoreAway(failed));
  t.true(isStoreAway(new RemoteError(recordError(failed))), "from the store's thread");
  t.true(isStoreAway(new StepTimeoutError("the checkpoint store s3://bucket/run", 1000)));
  t.false(isStoreAway(new GenerationFencedError("s3://bucket/run", 1, 2)));
  t.false(isStoreAway(new InputUnusableError("s3://bucket/run", "no such bucket")));
  t.false(isStoreAway(new Error("a mistake")));
  t.false(isDiskFull(failed));
});

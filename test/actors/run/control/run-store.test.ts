// A run's store on a thread of its own: answers, errors, deadlines, and a thread that ends.

import test from "ava";
import { openRunStore } from "../../../../actors/run/control/run-store.ts";
import type { StoreAnswered, StoreCall } from "../../../../actors/threads/store-program.ts";
import { MemoryBucket } from "../../../../chaos/objects/memory-bucket.ts";
import { PeerLostError, recordError, StoreFailedError } from "../../../../src/errors/errors.ts";
import { SimulatedClock } from "../../../../src/ports/clock.ts";
import { realDisk } from "../../../../src/ports/disk.ts";
import type { Launcher, Thread, ThreadEnd } from "../../../../src/ports/launcher.ts";
import { diskOver, testJob } from "../../../helpers/stores/checkpoints.ts";

const opened = { directory: "s3://bucket/run", ...testJob };

/** A simulated thread, which answers when the test calls `answer`. */
interface Started {
  readonly calls: StoreCall[];
  answer(answer: Omit<StoreAnswered, "number">): void;
  end(end: ThreadEnd): void;
  isKilled: boolean;
}

function start() {
  const clock = new SimulatedClock();
  const threads: Started[] = [];
  const launcher = {
    start: () => {
      let report: (answer: StoreAnswered) => void = () => {};
      let end: (end: ThreadEnd) => void = () => {};
      const ended = new Promise<ThreadEnd>((resolve) => {
        end = resolve;
      });
      const calls: StoreCall[] = [];
      const started: Started = {
        ...{ calls, end, isKilled: false },
        answer: (answer) => report({ number: calls.at(-1)?.number ?? 0, ...answer }),
      };
      threads.push(started);
      // Threads are generic over commands and reports; this launcher starts store threads alone.
      return {
        send: (call: StoreCall) => void calls.push(call),
        ended,
        kill: () => {
          started.isKilled = true;
        },
        onReport: (next: typeof report) => {
          report = next;
        },
      } as unknown as Thread<unknown, unknown>;
    },
  } as unknown as Launcher;
  const store = openRunStore({ opened, disk: realDisk, clock, deadlineMs: 1000, launcher });
  return { clock, threads, store };
}

test("calls of the run store are executed by one thread in order, errors included", async (t) => {
  const { store, threads } = start();
  t.true(store.isRemote);
  const latest = store.latest();
  threads[0]?.answer({ result: undefined });
  t.is(await latest, undefined);
  const begun = store.beginGeneration(["a"]);
  t.deepEqual(threads[0]?.calls.at(-1), { number: 2, name: "beginGeneration", given: [["a"]] });
  threads[0]?.answer({ error: recordError(new StoreFailedError("write", "s3://bucket/run/log")) });
  await t.throwsAsync(begun, { code: "STORE_FAILED", message: /s3:\/\/bucket\/run\/log/ });
  t.is(threads.length, 1);
  store.close();
  t.true(threads[0]?.isKilled);
});

test("a call that is not answered in time fails by name, and the next one has a new thread", async (t) => {
  const { store, threads, clock } = start();
  const list = store.list();
  const commit = store.within(5000).commit({} as never);
  const failed = t.throwsAsync(list, {
    code: "STEP_TIMEOUT",
    message: "Waited 1000 ms for the checkpoint store s3://bucket/run to list the checkpoints",
  });
  const lost = t.throwsAsync(commit, { instanceOf: PeerLostError });
  clock.runNext();
  await failed;
  await lost;
  t.true(threads[0]?.isKilled);
  const latest = store.latest();
  t.is(threads.length, 2);
  threads[0]?.answer({ result: "too late" });
  threads[1]?.answer({ result: undefined });
  t.is(await latest, undefined);
});

test("calls of the run store fail with a named error when their thread ends", async (t) => {
  const { store, threads } = start();
  const latest = store.latest();
  threads[0]?.end({ kind: "lost", reason: "out of memory" });
  await t.throwsAsync(latest, { instanceOf: PeerLostError, message: /store.*out of memory/ });
  const list = store.list();
  threads[1]?.answer({ result: { manifests: [], damaged: [] } });
  t.deepEqual(await list, { manifests: [], damaged: [] });
});

test("the store of a simulated machine is called at once, without a thread", async (t) => {
  const bucket = new MemoryBucket();
  const clock = new SimulatedClock();
  const store = openRunStore({ opened, disk: diskOver(bucket), clock, deadlineMs: 1 });
  t.false(store.isRemote);
  const begun = store.beginGeneration([]);
  t.true(bucket.keys.includes("run/log/0000000001.json"));
  t.is((await begun).generation, 1);
});

// Reports of readers and workers become shares of an interval; the worker pool follows the master.

import test from "ava";
import { workerPoolMachine } from "../../../../actors/host/worker-pool.ts";
import { createGeneration } from "../../../../actors/threads/generation-memory.ts";
import { hostPlaceOf } from "../../../../actors/threads/generation-spec.ts";
import { WorkerCount } from "../../../../actors/threads/preprocessing/worker-count.ts";
import {
  createFakeLauncher,
  smallGenerationSpec,
  startActor,
  startSimulatedNetwork,
} from "../../../helpers/clusters/actors.ts";

const limits = {
  workersMin: 1,
  workersMax: 8,
  threads: true,
  splitDeadlineMs: 1000,
  attemptsMax: 3,
};

test("a starving reader adds workers, and full buffers with idle workers remove them", (t) => {
  const count = new WorkerCount(limits, 0);
  let [nowMs, stalledMs, workers] = [0, 500, 1];
  /** Reports one second of readers and workers. */
  const pass = (stalled: number, busy: number, buffered: number) => {
    stalledMs += 1000 * stalled;
    count.addReader(0, { buffered: 8, wanted: 0, stalledMs: 70 }); // Another reader has enough.
    count.addReader(1, { buffered, wanted: 8 - buffered, stalledMs });
    for (let i = 0; i < workers; i++) count.addWorker(500 * busy, 500);
    nowMs += 1000;
    workers = count.endInterval(workers, nowMs).wanted;
    return workers;
  };
  t.is(pass(0, 0, 0), 1, "waits before the first report do not count");
  const starved = [1, 2, 3, 4, 5].map(() => pass(0.75, 1, 0));
  t.is(starved.at(-1), 4, "readers wait 3/4 of the time: fourfold");
  const settled = Array.from({ length: 30 }, () => pass(0, 0.9, 8));
  t.is(settled.at(-1), 4);
  const idle = Array.from({ length: 40 }, () => pass(0, 1.4 / workers, 8));
  t.is(idle.at(-1), 2);
});

test("a worker pool starts, drains and replaces its threads", async (t) => {
  const place = startSimulatedNetwork();
  const { launcher, threads } = createFakeLauncher();
  const small = smallGenerationSpec();
  const spec = { ...small, job: { ...small.job, preprocessing: limits } };
  const generation = createGeneration(spec, hostPlaceOf(spec, 0));
  const input = { network: place.network, launcher, generation, position: 0 };
  const { actor, ends } = startActor(place, workerPoolMachine, input);
  const scale = async (workers: number) => {
    place.say({ role: "pool", index: 0 }, "pool.scale", { workers });
    await place.pass(0);
  };
  await place.pass(0);
  t.is(threads.length, 1);
  await scale(3);
  t.is(threads.length, 3);
  await scale(3);
  t.is(threads.length, 3, "a repeated message changes nothing");
  threads[1]?.end({ kind: "lost", reason: "killed" });
  await place.pass(0);
  t.is(threads.length, 3, "a lost worker is replaced later");
  await place.pass(60);
  t.is(threads.length, 4);
  await scale(1);
  const drained = threads.map(({ commands }) => commands.length);
  t.deepEqual(drained, [0, 0, 1, 1]);
  threads[2]?.end({ kind: "finished" });
  threads[3]?.end({ kind: "finished" });
  await place.pass(1000);
  t.is(threads.length, 4);
  await scale(2);
  t.is(threads.length, 5);
  t.is(ends.error, undefined);
  actor.stop();
});

// A further host makes the caches of the first host that it does not see, once; the coordinator
// assembles no generation before.

import test from "ava";
import { hostMachine } from "../../../actors/host/host.ts";
import { resolveJob } from "../../../index.ts";
import { InputUnusableError, recordError } from "../../../src/errors/errors.ts";
import { jobTextOf } from "../../../src/job/job.ts";
import {
  createFakeLauncher,
  startActor,
  startSimulatedNetwork,
} from "../../helpers/clusters/actors.ts";
import { smallData, smallModel } from "../../helpers/clusters/clusters.ts";

function startFurther() {
  const place = startSimulatedNetwork({ memoryBytes: 1e9 });
  const { launcher, threads } = createFakeLauncher();
  const { network, say, heard } = place;
  startActor(place, hostMachine, { network, launcher, host: 2, devices: 1 });
  const job = jobTextOf(resolveJob({ model: smallModel, data: smallData }));
  const caches = [{ part: "training" as const, path: "/caches/a.cache", digest: "d" }];
  const ask = () => say({ role: "host", index: 2 }, "host.cache", { command: 3, job, caches });
  const reports = () => heard({ role: "coordinator", index: 0 });
  return { ...place, threads, ask, reports };
}

test("a host that finds the first host's caches reports it at once, at each request", async (t) => {
  const { network, ask, reports, threads, pass } = startFurther();
  network.disk.makeDirectory("/caches");
  network.disk.open("/caches/a.cache", "write").close();
  ask();
  ask();
  await pass(0);
  t.is(threads.length, 0);
  t.deepEqual(
    reports().map(({ type, body }) => [type, body]),
    [1, 2].map(() => ["host.cached", { command: 3, host: 2 }]),
  );
});

test("a host that lacks the first host's caches makes them, and reports progress", async (t) => {
  const { ask, reports, threads, pass } = startFurther();
  ask();
  ask(); // A repeat.
  await pass(0);
  const [thread, ...others] = threads;
  t.deepEqual(others, []);
  t.is(thread?.name, "cache");
  thread?.report({ type: "preparing", fraction: 0.5 });
  await pass(0);
  t.like(reports().at(-1), { type: "host.preparing", body: { fraction: 0.5 } });
  thread?.end({ kind: "finished" });
  await pass(0);
  t.like(reports().at(-1), { type: "host.cached", body: { command: 3, host: 2 } });
});

test("a host that cannot make the caches ends the generation with the reason", async (t) => {
  const { ask, reports, threads, pass } = startFurther();
  ask();
  await pass(0);
  const error = recordError(new InputUnusableError("a.csv", "There is no file a.csv"));
  threads[0]?.end({ kind: "failed", error });
  await pass(0);
  t.like(reports().at(-1), {
    type: "host.failed",
    body: { host: 2, context: "host.cache", error },
  });
});

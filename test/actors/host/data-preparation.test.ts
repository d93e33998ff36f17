// A host that prepares data: the deadline of the search for a plan, and the threads that index.

import test from "ava";
import { createActor } from "xstate";
import { indexersFor, preparing } from "../../../actors/host/data-preparation.ts";
import { hostMachine } from "../../../actors/host/host.ts";
import { resolveJob } from "../../../index.ts";
import { claimsMemory, FileClaims } from "../../../src/data/file-index/claims.ts";
import { jobTextOf } from "../../../src/job/job.ts";
import {
  createFakeLauncher,
  scope,
  smallGenerationSpec,
  startActor,
  startSimulatedNetwork,
} from "../../helpers/clusters/actors.ts";
import { smallData, smallModel } from "../../helpers/clusters/clusters.ts";

function startPreparing(stepDeadlineMs: number, memoryBytes = 1e9) {
  const place = startSimulatedNetwork({ memoryBytes });
  const { launcher, threads } = createFakeLauncher();
  const job = resolveJob({ model: smallModel, data: smallData, stepDeadlineMs });
  const body = { command: 7, job: jobTextOf(job), hosts: [2] };
  const question = { type: "host.prepare" as const, ...scope, from: "coordinator:0", body };
  const own = { network: place.network, launcher, host: 0, cores: 3 };
  const input = { ...own, question, job, pins: undefined };
  createActor(preparing, { input: input as never }).start();
  const [thread] = threads;
  if (thread === undefined) throw new RangeError("A thread prepares the data");
  const prepared = () =>
    place.heard({ role: "coordinator", index: 0 }).filter(({ type }) => type === "host.prepared");
  return { ...place, thread, threads, prepared, data: smallGenerationSpec().data };
}

test("a plan search ends at the step deadline; the run continues without a plan and says why", async (t) => {
  const { thread, prepared, pass, data } = startPreparing(5000);
  await pass(60_000);
  t.false(thread.isKilled); // The deadline is for the search: making a cache may take long.
  thread.report({ type: "prepared", plan: data });
  await pass(4900);
  t.false(thread.isKilled);
  await pass(200);
  t.true(thread.isKilled);
  t.deepEqual(prepared(), []); // Nothing is reported before the thread has exited.
  thread.end({ kind: "lost", reason: "killed" });
  await pass(0);
  const note =
    "the search for a plan failed (the search exceeded the deadline `planning` of 5 s): " +
    "each table is placed as written";
  t.like(prepared()[0]?.body, { command: 7, placement: { report: { by: "as-written", note } } });
});

test("a plan found in time is reported, and no search takes more than 20 s", async (t) => {
  const quick = startPreparing(5000);
  quick.thread.report({ type: "prepared", plan: quick.data });
  await quick.pass(4900);
  const placement = { report: { by: "auto" } };
  quick.thread.report({ type: "placed", placement });
  quick.thread.end({ kind: "finished" });
  await quick.pass(10_000);
  t.false(quick.thread.isKilled);
  t.like(quick.prepared()[0]?.body, { placement });

  const slow = startPreparing(60_000);
  slow.thread.report({ type: "prepared", plan: slow.data });
  await slow.pass(19_900);
  t.false(slow.thread.isKilled);
  await slow.pass(200);
  t.true(slow.thread.isKilled);
});

test("further threads index files, claim those of a thread that ended, and end with it all", async (t) => {
  const { thread, threads, prepared, pass, data } = startPreparing(5000, 20e9);
  const claims = claimsMemory([0, 1, 2]);
  thread.report({ type: "indexing", part: "training", claims, files: 3 });
  const helpers = threads.slice(1);
  t.is(helpers.length, 2, "one thread for each core and file, the preparing one included");
  t.deepEqual(
    [indexersFor(100, 64, 1e12), indexersFor(100, 64, 5e9), indexersFor(1, 8, 1e9)],
    [16, 2, 1],
  );
  const own = new FileClaims(claims, 2);
  t.is(own.take(), 0);
  helpers[0]?.end({ kind: "lost", reason: "killed" });
  await pass(0);
  t.is(new FileClaims(claims, 1).take(), 0);
  thread.report({ type: "prepared", plan: data });
  thread.end({ kind: "finished" });
  await pass(0);
  t.true(helpers[1]?.isKilled, "the preparation's end kills the thread that is left");
  t.is(prepared().length, 1);
});

test("a host answers while it lays out a generation, and drops one that has ended", async (t) => {
  const place = startSimulatedNetwork({ memoryBytes: 1e9 });
  const { launcher, threads } = createFakeLauncher();
  const { network, say, pass, heard, clock } = place;
  const { actor } = startActor(place, hostMachine, { network, launcher, host: 0, devices: 2 });
  const host = { role: "host", index: 0 } as const;
  const { job, ...spec } = smallGenerationSpec();
  const body = { command: 1, job: jobTextOf(job), assembly: JSON.stringify(spec) };
  say(host, "host.assemble", body);
  // Some turns of the event loop: reading, checking and placing the tables takes more.
  for (let turn = 0; turn < 8; turn++) {
    await new Promise<void>((resume) => setImmediate(resume));
    clock.advance(0);
  }
  t.is(threads.length, 0);
  say(host, "host.release", { command: 2, isOver: true });
  await pass(1000);
  const types = heard({ role: "coordinator", index: 0 }).map(({ type }) => type);
  t.deepEqual(types, ["host.released"]);
  t.is(threads.length, 0, "the generation is not started later");
  say(host, "host.assemble", body);
  await pass(0);
  t.true(threads.length > 0, "without a release, threads start");
  say(host, "host.release", { command: 3, isOver: true });
  await pass(0);
  const counted = heard({ role: "coordinator", index: 0 }).flatMap(({ type, body }) =>
    type === "host.released" ? [body.meters?.devices.length] : [],
  );
  t.deepEqual(counted, [undefined, 2], "a release answers with the counters of both devices");
  const { served } = actor.getSnapshot().context;
  t.deepEqual(Object.keys(served.get(spec.run).spec), ["run", "generation", "hosts"]);
});

test("when the generation ends, the preparing host is released and its thread killed", async (t) => {
  const place = startSimulatedNetwork({ memoryBytes: 1e9 });
  const { launcher, threads } = createFakeLauncher();
  const { network, say, pass, heard } = place;
  const { ends } = startActor(place, hostMachine, { network, launcher, host: 0, devices: 1 });
  const job = resolveJob({ model: smallModel, data: smallData });
  say({ role: "host", index: 0 }, "host.prepare", { command: 7, job: jobTextOf(job), hosts: [1] });
  await pass(0);
  t.is(threads.length, 1);
  say({ role: "host", index: 0 }, "host.release", { command: 8, isOver: true });
  await pass(0);
  t.true(threads[0]?.isKilled);
  threads[0]?.end({ kind: "lost", reason: "killed" });
  await pass(100);
  const types = heard({ role: "coordinator", index: 0 }).map(({ type }) => type);
  t.deepEqual(types, ["host.released"], "no failure is reported");
  t.is(ends.error, undefined);
});

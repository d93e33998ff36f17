// A generation on one host: which threads end together, and which thread is replaced.

import test from "ava";
import {
  type HostGenerationContext,
  hostGenerationMachine,
} from "../../../actors/host/host-generation.ts";
import { TimelineKeeper } from "../../../actors/host/kept-timelines.ts";
import { reportProcess } from "../../../actors/observe/process-report.ts";
import type { GenerationSpec } from "../../../actors/threads/generation-spec.ts";
import { KeptRows } from "../../../actors/threads/kept-rows.ts";
import { ReplicaCache } from "../../../storage/checkpoints/replicas/replica-cache.ts";
import {
  createFakeLauncher,
  smallGenerationSpec,
  startActor,
  startSimulatedNetwork,
} from "../../helpers/clusters/actors.ts";

function startGeneration(spec = smallGenerationSpec()) {
  const place = startSimulatedNetwork();
  const { launcher, threads } = createFakeLauncher();
  const replicas = new ReplicaCache(0);
  const held = { replicas, rows: new KeptRows(), timelines: new TimelineKeeper() };
  const input = { network: place.network, launcher, spec, host: 0, ...held };
  const { actor, ends } = startActor(place, hostGenerationMachine, input);
  const { generation } = actor.getSnapshot().context as HostGenerationContext;
  const isAborted = () => Atomics.load(new Int32Array(generation.memory.words), 0) === 1;
  const named = (name: string) => threads.filter((thread) => thread.name === name);
  const abort = () => Atomics.or(new Int32Array(generation.memory.words), 0, 1);
  return { ...place, actor, ends, threads, named, isAborted, abort };
}

test("a device that ends aborts the generation: all threads end, and all waits are aborted", async (t) => {
  const { named, threads, pass, ends, isAborted } = startGeneration();
  await pass(0);
  const names = ["device-0", "device-1", "reader-0", "writer-0", "writer-1"];
  t.deepEqual(threads.map(({ name }) => name).sort(), names);
  t.false(isAborted());
  named("device-1")[0]?.end({ kind: "lost", reason: "killed" });
  await pass(0);
  t.like(ends.error, {
    code: "PEER_LOST",
    incident: { offender: "device:1", supervisor: "host:0" },
  });
  t.true(threads.filter(({ name }) => name !== "device-1").every(({ isKilled }) => isKilled));
  t.true(isAborted());
});

test("a thread that exits after the generation was aborted is not reported as the first cause", async (t) => {
  const { named, pass, ends, abort } = startGeneration();
  await pass(0);
  abort(); // Device 1's thread aborts; its exit is seen later.
  named("writer-0")[0]?.end({ kind: "finished" });
  named("reader-0")[0]?.end({ kind: "finished" });
  await pass(0);
  t.is(ends.error, undefined);
  named("device-1")[0]?.end({ kind: "lost", reason: "killed" });
  await pass(0);
  t.like(ends.error, { code: "PEER_LOST", incident: { offender: "device:1" } });
});

test("a reader that ends is replaced, and no other thread is", async (t) => {
  const { heard, named, threads, pass, ends } = startGeneration();
  await pass(0);
  named("reader-0")[0]?.end({ kind: "lost", reason: "killed" });
  await pass(100);
  t.is(named("reader-0").length, 2);
  t.is(threads.length, 6);
  t.is(ends.error, undefined);
  const mended = heard({ role: "coordinator", index: 0 }).find(
    ({ type }) => type === "host.mended",
  );
  t.like(mended?.body, { actor: "reader:0", error: { code: "PEER_LOST" } });
});

test("a replacement reader starts only once the former reader's thread has exited", async (t) => {
  const { named, pass, say } = startGeneration();
  await pass(0);
  say({ role: "reader", index: 0 }, "chaos.throw", { reason: "thrown" });
  await pass(1000);
  const [first] = named("reader-0");
  t.true(first?.isKilled);
  t.is(named("reader-0").length, 1); // The killed thread may still write.
  first?.end({ kind: "lost", reason: "killed" });
  await pass(0);
  t.is(named("reader-0").length, 2);
});

test("readers that fail too often end the generation", async (t) => {
  const { named, pass, ends } = startGeneration();
  for (let i = 0; i < 11; i++) {
    await pass(5000);
    named("reader-0").at(-1)?.end({ kind: "lost", reason: "killed" });
  }
  await pass(0);
  t.like(ends.error, { incident: { offender: "reader:0" } });
});

test("a host generation sends four heartbeats a second", async (t) => {
  const { heard, pass } = startGeneration();
  for (let i = 0; i < 4; i++) await pass(250);
  const beats = heard({ role: "coordinator", index: 0 });
  t.deepEqual(
    beats.map(({ type, body }) => [type, (body as { beat: number }).beat]),
    [0, 1, 2, 3, 4].map((beat) => ["host.progress", beat]),
  );
});

test("a host generation computes its layout once, whatever it sends or receives", async (t) => {
  const { spec, layouts } = countingLayouts({
    ...smallGenerationSpec(),
    devices: 4,
    hosts: [
      { host: 0, devices: 2 },
      { host: 1, devices: 2 },
    ],
  });
  const { actor, named, network, pass, say, heard } = startGeneration(spec);
  await pass(0);
  t.is(named("bridge-0").length, 1);
  for (let beat = 0; beat < 8; beat++) {
    say({ role: "device", index: 0 }, "device.pause", { command: 1, afterStep: beat });
    reportProcess(actor, network, 0, { hasShards: true });
    await pass(250);
  }
  const beats = heard({ role: "coordinator", index: 0 });
  t.is(beats.filter(({ type }) => type === "host.progress").length, 9);
  named("reader-0")[0]?.end({ kind: "lost", reason: "killed" }); // Causes a report.
  await pass(100);
  t.is(layouts(), 1);
});

/** A spec that counts its layouts: only a layout reads the number of slices of a batch. */
function countingLayouts(spec: GenerationSpec) {
  let count = 0;
  const { slices } = spec.job;
  const job = Object.defineProperty({ ...spec.job }, "slices", {
    enumerable: false, // It is not serialised for the threads.
    get() {
      count++;
      return slices;
    },
  });
  return { spec: { ...spec, job }, layouts: () => count };
}

// The bridge actor: it passes replicas to its thread, reports the replicas that the thread keeps,
// and fails when the thread ends.

import test from "ava";
import { bridgeMachine } from "../../../actors/host/bridge.ts";
import { createGeneration } from "../../../actors/threads/generation-memory.ts";
import { hostPlaceOf } from "../../../actors/threads/generation-spec.ts";
import { KeptRows } from "../../../actors/threads/kept-rows.ts";
import { ReplicaCache } from "../../../storage/checkpoints/replicas/replica-cache.ts";
import {
  createFakeLauncher,
  smallGenerationSpec,
  startActor,
  startSimulatedNetwork,
} from "../../helpers/clusters/actors.ts";

function startBridge() {
  const place = startSimulatedNetwork();
  const { launcher, threads } = createFakeLauncher();
  const hosts = [0, 1].map((host) => ({ host, devices: 2 }));
  const spec = { ...smallGenerationSpec(), devices: 4, hosts };
  const replicas = new ReplicaCache(1000);
  const held = { replicas, rows: new KeptRows(), memoryBytes: 0 };
  const generation = createGeneration(spec, hostPlaceOf(spec, 0), held);
  const input = { network: place.network, launcher, generation, position: 0, replicas };
  const { ends } = startActor(place, bridgeMachine, input);
  const [thread] = threads;
  if (thread === undefined) throw new Error("No thread was started");
  return { ...place, ends, thread, threads, replicas };
}

const replicaOf = (name: string) => {
  const memory = new SharedArrayBuffer(4);
  return { name, cut: 10, generation: 1, bytes: 4, sha256: "0".repeat(64), memory };
};

test("a bridge passes every replica of the host to its thread, until the bridge ends", async (t) => {
  const { thread, replicas, say, pass, ends } = startBridge();
  const written = replicaOf("dense");
  replicas.put(written);
  t.deepEqual(thread.commands, [{ type: "copy", copy: written }]);
  say({ role: "bridge", index: 0 }, "chaos.throw", { reason: "thrown here" });
  await pass(0);
  t.like(ends.error, { message: "thrown here" });
  t.true(thread.isKilled);
  replicas.put(replicaOf("later"));
  t.is(thread.commands.length, 1);
});

test("a bridge reports the replicas that its thread keeps to the checkpoint coordinator", async (t) => {
  const { thread, heard, pass } = startBridge();
  const manifest = "1".repeat(64);
  thread.report({ type: "kept", manifest, cut: 10, files: [], missing: 2 });
  await pass(0);
  const [kept] = heard({ role: "checkpoint", index: 0 });
  t.like(kept, { type: "buddy.kept", body: { host: 0, manifest, missing: 2 } });
});

test("a bridge fails when its thread ends", async (t) => {
  const { thread, pass, ends } = startBridge();
  thread.end({ kind: "lost", reason: "killed" });
  await pass(0);
  t.like(ends.error, { code: "PEER_LOST", actor: "bridge:0" });
});

test("a bridge starts one adopter for offered parts, and it answers for the writer", async (t) => {
  const { thread, threads, replicas, say, heard, pass, ends } = startBridge();
  const part = { name: "dense", file: "", at: 0, bytes: 4, sha256: "0".repeat(64) };
  const parts = [{ ...part, base: [], leaves: ["leaf"] }];
  const offer = (device: number) =>
    say({ role: "bridge", index: 0 }, "part.offered", { cut: 10, device, of: 1, parts });
  offer(0);
  offer(9);
  await pass(0);
  t.is(threads.length, 1, "these are no devices of another host");
  offer(2);
  offer(2);
  await pass(0);
  const [, adopter, ...others] = threads;
  t.deepEqual([adopter?.name, others.length], ["adopter-2", 0]);
  t.deepEqual(adopter?.commands, [{ cut: 10, parts }]);
  adopter?.report({ type: "copy", copy: replicaOf("dense") });
  t.is(replicas.bytes, 4);
  adopter?.report({ type: "held", names: ["dense"] });
  adopter?.report({ type: "saved", parts });
  say({ role: "writer", index: 2 }, "writer.save", { cut: 10 });
  await pass(0);
  const answers = heard({ role: "checkpoint", index: 0 });
  t.deepEqual(
    answers.map(({ type }) => type),
    ["part.held", "part.saved", "part.held", "part.saved"],
  );
  t.like(answers[0]?.body, { cut: 10, device: 2, of: 1, names: ["dense"] });
  say({ role: "bridge", index: 0 }, "buddy.left", { hosts: [1] });
  await pass(0);
  t.deepEqual(thread.commands.at(-1), { type: "left", positions: [1] });
  adopter?.end({ kind: "lost", reason: "killed" });
  await pass(0);
  t.like(ends.error, { code: "PEER_LOST", actor: "adopter:2" });
});

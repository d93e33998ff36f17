// The device actor executes each command once, even if messages are repeated or lost.

import test from "ava";
import { deviceMachine } from "../../../actors/host/device.ts";
import { createGeneration } from "../../../actors/threads/generation-memory.ts";
import { hostPlaceOf } from "../../../actors/threads/generation-spec.ts";
import {
  createFakeLauncher,
  smallGenerationSpec,
  startActor,
  startSimulatedNetwork,
} from "../../helpers/clusters/actors.ts";

const self = { role: "device", index: 0 } as const;
const coordinator = { role: "coordinator", index: 0 } as const;

function startDevice() {
  const place = startSimulatedNetwork();
  const { launcher, threads } = createFakeLauncher();
  const spec = smallGenerationSpec();
  const generation = createGeneration(spec, hostPlaceOf(spec, 0));
  const [lease] = generation.leases;
  if (lease === undefined) throw new Error("There is no lease");
  const input = { network: place.network, launcher, generation, device: 0, lease };
  const { actor, ends } = startActor(place, deviceMachine, input);
  const [thread] = threads;
  if (thread === undefined) throw new Error("No thread was started");
  const types = () => place.heard(coordinator).map(({ type }) => type);
  return { ...place, actor, ends, thread, types };
}

const restored = { memoryBytes: 0, storeBytes: 0, keptBytes: 0 };
const ready = { type: "ready", step: 0, arithmetic: "reference-1", restored };
const reached = {
  type: "reached",
  step: 10,
  lossSum: 5,
  steps: 10,
  isPaused: false,
  repairedIds: [0],
  staleRows: [0],
  dynamicIds: { admitted: [0], evicted: [0], dropped: [0] },
};

test("a device repeats that it is ready until it receives its first command", async (t) => {
  const { thread, types, pass, say } = startDevice();
  thread.report(ready);
  await pass(1);
  t.deepEqual(types(), ["device.ready"]);
  await pass(500);
  await pass(500);
  t.deepEqual(types(), ["device.ready", "device.ready", "device.ready"]);
  say(self, "device.run", { command: 3, toStep: 10, lossSum: 0, plateau: 1 });
  thread.report(reached);
  await pass(2000);
  t.deepEqual(types().slice(3), ["device.reached"]);
});

test("a device executes a repeated command once, and answers each request", async (t) => {
  const { thread, types, pass, say } = startDevice();
  thread.report(ready);
  say(self, "device.run", { command: 3, toStep: 10, lossSum: 0, plateau: 1 });
  say(self, "device.run", { command: 3, toStep: 10, lossSum: 0, plateau: 1 }); // Still busy.
  thread.report(reached);
  await pass(0);
  say(self, "device.run", { command: 3, toStep: 10, lossSum: 0, plateau: 1 }); // The answer was lost.
  await pass(0);
  t.deepEqual(thread.commands, [{ type: "run", toStep: 10, lossSum: 0, plateau: 1 }]);
  t.deepEqual(types().slice(1), ["device.reached", "device.reached"]);
});

test("a device ignores a command that is older than the last command it answered", async (t) => {
  const { thread, types, pass, say } = startDevice();
  thread.report(ready);
  say(self, "device.run", { command: 3, toStep: 10, lossSum: 0, plateau: 1 });
  thread.report(reached);
  await pass(0);
  say(self, "device.save", { command: 2, cut: 5, isBaseline: false }); // The device is at step 10.
  await pass(0);
  t.is(thread.commands.length, 1);
  t.deepEqual(types().slice(1), ["device.reached"]);
});

test("a device fails when its thread is lost", async (t) => {
  const { thread, pass, ends } = startDevice();
  thread.end({ kind: "lost", reason: "killed" });
  await pass(0);
  t.like(ends.error, { code: "PEER_LOST", message: "device:0 failed: Lost device:0: killed" });
});

test("a device that fails kills its thread", async (t) => {
  const { thread, pass, say, ends } = startDevice();
  say(self, "chaos.throw", { reason: "thrown here" });
  await pass(0);
  t.like(ends.error, { message: "thrown here" });
  t.true(thread.isKilled);
});
